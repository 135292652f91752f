// What the ranks of an engine have come to so far.
//
// Ranks that do not run have the results of the one that runs for them.
//
// Thread rule: one thread; const. Ops are counted; times: nanoseconds of the run. A
// rank that is unknown or absent has an empty result.

#ifndef VRANK_GRAPH_REPLAY_RANK_RESULTS_H_
#define VRANK_GRAPH_REPLAY_RANK_RESULTS_H_

#include <cstddef>
#include <cstdint>

#include "graph/replay/current_folding.h"
#include "graph/replay/engine.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

class RankResults {
 public:
  RankResults(const RankTable& ranks, const CurrentFolding& folding)
      : ranks_(ranks), folding_(folding) {}

  // As in Engine.
  RankResult Of(int32_t world_rank) const;
  uint64_t Unresolved(int32_t world_rank) const;
  uint64_t Ops() const;
  size_t PlayedRanks() const;
  bool Finished() const;

 private:
  const RankTable& ranks_;
  const CurrentFolding& folding_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_RANK_RESULTS_H_
