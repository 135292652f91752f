// Puts the collectives of all ranks together, as part_alignment.h decides.
//
// What a collective costs once all members have arrived is the shortest that it lasted
// on any member: on the one that came last. A collective of which not every member has
// a recorded part lasts as recorded and is counted. A rank of whose collectives none
// could be put together with the other members' was not recorded in the same run, or
// not in the same steps: one error with both sides.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_
#define VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/import/clock_difference.h"
#include "graph/import/communication_use.h"
#include "graph/import/dependencies.h"
#include "graph/import/import_losses.h"

namespace vrank::graph {

// A rank as far as it is known here.
struct RankCollectives {
  int32_t rank = 0;
  const Recording* recording = nullptr;
  const Dependencies* dependencies = nullptr;
  std::vector<CollectiveUse> uses;
};

struct MatchedCollective {
  uint32_t group = 0;  // place in CollectiveMatch::groups
  CollectiveCall call;
};

struct CollectiveMatch {
  struct Group {
    std::string name;
    std::vector<int32_t> members;  // all of them imported
  };
  std::vector<Group> groups;
  ClockDifferences clocks;
  // By rank, by work.
  std::map<int32_t, std::map<uint32_t, MatchedCollective>> collectives;
};

// Infers the members of groups without recorded ranks: ranks that recorded the
// collective at the same time, provided that all ranks of the job are present and form
// groups of equal size. Other groups are left out of `ranks` and counted. `losses`: by
// rank.
void InferMembers(int32_t world_size, std::vector<RankCollectives>* ranks,
                  std::map<int32_t, ImportLosses>* losses);

// REQUIRES: all members are set. `losses`: by rank.
absl::StatusOr<CollectiveMatch> MatchCollectives(
    const std::vector<RankCollectives>& ranks, std::map<int32_t, ImportLosses>* losses);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_COLLECTIVE_MATCH_H_
