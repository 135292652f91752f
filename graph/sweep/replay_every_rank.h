// Plays every rank of a job that does not fold, on the executor that can: the sweep
// where it may, else the incremental engine. Both give the same bytes. With contention
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

// Errors are the job's, as the incremental engine words them; ResourceExhausted: more
// memory than allowed, with the amount. `options.store_ends` is not looked at.
absl::StatusOr<EveryRank> ReplayEveryRank(const ResolvedJob& job,
                                          const NetworkModel& network,
                                          SweepOptions options);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_REPLAY_EVERY_RANK_H_
