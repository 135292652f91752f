// What a real rank's host and device did, as far as it says where iterations are and
// how long they take (graph/iterations).
//
// Memory: nothing for the work of a program that annotates its iterations, and about
// 13 bytes for each launch, collective and wait of another program, whose
// iterations are found at its end. Beyond kMostMoments the log stops to record:
// later iterations are not reported (`complete` is false).
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_ITERATION_LOG_H_
#define VRANK_EMULATOR_WORLD_ITERATION_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulator/world/moment_sequence.h"
#include "graph/iterations/rank_iterations.h"
#include "graph/program/program.h"
#include "graph/replay/stamp.h"
#include "graph/replay/timeline_observer.h"

namespace vrank::emulator {

// Begin and end as graph/iterations/rank_iterations.h defines them.
struct TimedIteration {
  graph::Stamp begin, end;
  graph::Stamp host_begin, host_end;
  graph::IterationBounds bounds;
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
  TimedIterations Find(graph::IterationSearch search) const;

  // What it holds, by the number of ops: less than the memory it takes.
  size_t bytes() const { return moments_.bytes() + scan_.bytes(); }

 private:
  // An op that the host has passed while device work before it, or its own, is under
  // way.
  struct Passed {
    uint64_t op = 0;
    graph::Stamp host;
    bool kept = false;       // it is a moment of moments_ then
    bool on_device = false;  // it has an end
    std::optional<graph::Stamp> end = std::nullopt;
  };
  void Pass(const Passed& passed);
  void ForgetMoments();
  // Stores what is complete.
  void Settle();

  const graph::Program* const program_;
  graph::IterationScan scan_;
  bool full_ = false;
  uint64_t next_op_ = 0;  // behind the op passed last
  graph::Stamp host_;     // when it was passed
  uint64_t last_kept_ = kNoOp;
  std::deque<Passed> passed_;  // by op, until device work before is complete
  struct Early {
    uint64_t op = 0;
    graph::Stamp end;
  };
  std::vector<Early> early_;  // ends of ops that the host has not passed
  // Moments at which an iteration may begin or end.
  MomentSequence moments_;
  size_t moment_count_ = 0;  // those in passed_ included
  graph::Stamp completed_;   // the latest end of what is settled
  static constexpr uint64_t kNoOp = ~uint64_t{0};
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_ITERATION_LOG_H_
