// The order in which waits are told: from the cause on.
//
// Thread rule: plain values; pure function.

#ifndef VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_
#define VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace vrank::graph {

// Ranks that wait for the same.
struct BlockedRanks {
  std::vector<int32_t> ranks;  // world ranks
  std::set<int32_t> awaited;   // world ranks; those that have ended are in no other row
  std::string text;            // "ranks 0, 1: host waits for ..."
};

// The texts, each behind those of the ranks that it waits for; rows that wait for each
// other in a circle stand together, each before one that it waits for. Otherwise as
// given. Of more than `limit`, the first, and a line with the number of the others.
std::vector<std::string> LinesFromTheCauseOn(const std::vector<BlockedRanks>& all,
                                             size_t limit);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_BLOCKED_RANKS_H_
