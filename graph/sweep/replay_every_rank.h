// Plays every rank of a job that does not fold, on the executor that can: the sweep
// where it may, else the incremental engine. Both give the same bytes, and so does the
// engine where it plays one rank for all that have one timeline. With contention
// (EngineOptions) it is the engine, and links decide ends.
//
// Thread rule: one thread calls.

#ifndef VRANK_GRAPH_SWEEP_REPLAY_EVERY_RANK_H_
#define VRANK_GRAPH_SWEEP_REPLAY_EVERY_RANK_H_

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/sweep/sweep.h"

namespace vrank::graph {

// By place in ReplayJob::ranks.
struct EveryRank {
  std::vector<RankResult> results;
  std::vector<RankActivity> activities;
  std::vector<std::vector<RangeMark>> marks;
  std::string executor;  // "sweep (AVX-512)", "incremental engine"
};

enum class ReplayExecutor : uint8_t {
  kFastest,   // the sweep, or the worklist where the sweep cannot
  kSweep,     // Unimplemented where it cannot
  kWorklist,  // the incremental engine, every rank for itself
  kFolded,    // likewise, one rank of each colour
};

// Errors are the job's, as the incremental engine words them; ResourceExhausted: more
// memory than allowed, with the amount. `options.store_ends` is not looked at.
absl::StatusOr<EveryRank> ReplayEveryRank(
    const ResolvedJob& job, const NetworkModel& network, SweepOptions options,
    ReplayExecutor executor = ReplayExecutor::kFastest);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_REPLAY_EVERY_RANK_H_
