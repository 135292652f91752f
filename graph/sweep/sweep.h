// Plays every rank of a job at once: the second executor, for jobs that do not fold.
//
// The incremental engine (engine.h) follows one rank after the other and can do
// everything. The sweep does the same ops for up to 64 ranks of a class at once, with
// vector code and several threads, and keeps no queues: about a hundred times as fast,
// where the job is known in advance. What an op does to times is step.h's rules in
// both, and tests hold them to the same bytes.
//
// It cannot do: programs that are still written, absent ranks, jobs with errors,
// processes with several members of one communicator, single works of more than four
// seconds. Such a job is Unimplemented here (or, where it shows later, Run comes to a
// halt): ReplayEveryRank (replay_every_rank.h) plays it on the incremental engine.
//
// Thread rule: one thread calls; Run starts its own.

#ifndef VRANK_GRAPH_SWEEP_SWEEP_H_
#define VRANK_GRAPH_SWEEP_SWEEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/fold/job.h"
#include "graph/sweep/lanes.h"

namespace vrank::graph {

// Where a rank's time went, over the whole run.
struct RankActivity {
  int64_t busy_ns = 0;  // work and callbacks on lanes
  // Operations of communicators, from this rank's arrival to its end.
  int64_t communication_ns = 0;
  // The part of it before the operation's own cost: waiting for other ranks.
  int64_t communication_waited_ns = 0;
  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

// A range that was observed begins or ends.
struct RangeMark {
  uint32_t op = 0;  // index in the program
  Stamp host;
  friend bool operator==(const RangeMark&, const RangeMark&) = default;
};

struct SweepOptions {
  uint32_t threads = 0;                             // 0: as many as the machine has
  std::optional<VectorUnit> unit;                   // nullopt: the best one
  bool ledgers = true;                              // false: results know times only
  bool store_ends = false;                          // of everything on lanes
  uint64_t max_bytes = 0;                           // of state; 0: all that is there
  std::function<bool(const std::string&)> observe;  // ranges by name; empty: none
};

class Sweep {
 public:
  // `job` and `network` outlive it. Unimplemented: see above. ResourceExhausted: more
  // memory than `max_bytes`, with the amount.
  static absl::StatusOr<std::unique_ptr<Sweep>> Prepare(const ResolvedJob& job,
                                                        const NetworkModel& network,
                                                        const SweepOptions& options);
  ~Sweep();

  // Plays all, from the beginning each time. Unimplemented where it comes to a halt.
  absl::Status Run();

  // After Run, by place in ReplayJob::ranks.
  RankResult result(uint32_t place) const;
  RankActivity activity(uint32_t place) const;
  std::vector<RangeMark> marks(uint32_t place) const;
  // With store_ends: when what the op left on its lane had ended; else 0.
  int64_t end(uint32_t place, uint64_t op) const;

  uint64_t ops() const;    // over all ranks
  uint64_t bytes() const;  // of state and stored ends, over all ranks
  uint32_t blocks() const;
  VectorUnit unit() const;

 private:
  class Impl;
  explicit Sweep(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_SWEEP_H_
