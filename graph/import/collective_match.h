// Puts the collectives of all ranks together, as part_alignment.h decides.
//
// What a collective costs once all members have arrived is the shortest that it lasted
// on any member, which is that of the last arrival. A collective that lacks a recorded
// part on some member lasts as recorded and is counted.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_
#define VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "graph/import/communication_match.h"
#include "graph/import/import_losses.h"

namespace vrank::graph {

// Infers the members of groups without recorded ranks: ranks that recorded the
// collective at the same time, provided that all ranks of the job are present and form
// groups of equal size. Other groups are left out of `ranks` and counted. `losses`: by
// rank.
void InferMembers(int32_t world_size, std::vector<RankCommunication>* ranks,
                  std::map<int32_t, ImportLosses>* losses);

// REQUIRES: all members are set. `losses`: by rank.
void MatchCollectives(const std::vector<RankCommunication>& ranks,
                      std::map<int32_t, ImportLosses>* losses,
                      CommunicationMatch* match);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_
