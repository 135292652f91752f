// What a real rank's host and device did, as far as it says where iterations are and
// how long they take (graph/iterations).
//
// Memory: 48 bytes for each launch, collective and wait of the host, and as many again
// for what runs on the device. Beyond kMostMoments it stops to record, so that a run of
// days does not fill the memory: later iterations are not reported (`complete` is
// false).
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_SESSION_ITERATION_LOG_H_
#define VRANK_EMULATOR_SESSION_ITERATION_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/iterations/rank_iterations.h"
#include "graph/program/program.h"
#include "graph/replay/stamp.h"
#include "graph/replay/timeline_observer.h"

namespace vrank::emulator {

// Begin and end as graph/iterations/rank_iterations.h defines them.
struct TimedIteration {
  graph::Stamp begin, end;
  graph::Stamp host_begin, host_end;
  // The host entered or left the iteration before the device work was complete.
  bool host_runs_ahead() const {
    return begin.ns > host_begin.ns || end.ns > host_end.ns;
  }
};

struct TimedIterations {
  std::vector<TimedIteration> iterations;
  graph::IterationEvidence evidence = graph::IterationEvidence::kAnnotation;
  double regularity = 1;
  bool complete = true;
};

class IterationLog final : public graph::TimelineObserver {
 public:
  static constexpr size_t kMostMoments = 4'000'000;

  // `program` outlives the log. `matches`: IterationScan's.
  IterationLog(const graph::Program* program,
               std::function<bool(const std::string&)> matches);

  // graph::TimelineObserver. REQUIRES: the op is still in the program when it is
  // passed.
  void OnOpPassed(int32_t rank, uint64_t op, const graph::Stamp& reached,
                  const graph::Stamp& passed) override;
  void OnOpEnded(int32_t rank, uint64_t op, const graph::Stamp& begin,
                 const graph::Stamp& end) override;

  // Those so far whose device work is known to be complete.
  TimedIterations Find(bool annotations_alone) const;

 private:
  // The host has passed an op, or device work has ended.
  struct Moment {
    uint64_t op = 0;
    graph::Stamp at;
  };

  const graph::Program* const program_;
  graph::IterationScan scan_;
  bool full_ = false;
  Moment previous_;             // the op passed last
  uint64_t next_op_ = 0;        // the one after it
  std::vector<Moment> passed_;  // by op: those that may bound an iteration
  std::vector<Moment> ended_;   // by op: all device work
  std::vector<Moment> early_;   // ends of ops that the host has not passed
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_ITERATION_LOG_H_
