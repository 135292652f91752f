// Which ranks to trace so that a graph of the whole job can be built, and why each.
//
// One rank per class tells what its class does. Which ranks those are matters: rank 0
// of every class passes colour 0 and key 0 whatever a program groups by, so splits
// could mean anything (graph/membership/real_rank_choice.h).
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_BUILD_RANK_PLAN_H_
#define VRANK_GRAPH_BUILD_RANK_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/membership/layout.h"

namespace vrank::graph {

struct RankPlan {
  struct Entry {
    int32_t rank = 0;
    int32_t rank_class = 0;
    int32_t class_size = 0;
    bool deciding = false;    // a further rank of a class that has one already
    std::string class_name;   // "pp 3"; "all"
    std::string coordinates;  // "tp 2, dp 1, pp 3"
    std::string reason;       // a clause: "its class of 64 ranks (pp 3)"
  };
  std::vector<Entry> entries;  // by rank
  // How many more meanings than one the splits that programs make have on average, as
  // seen by the planned ranks; 0: they tell whatever a program groups by.
  double ambiguity = 0;

  std::vector<int32_t> ranks() const;
};

// What tells a graph's structure: a rank of each class, and further ones until they
// tell who groups with whom.
RankPlan PlanRanks(const Layout& layout);
// The same and rank 0: nobody else's slice shows what programs do there alone (read and
// print the loss, log, save).
RankPlan PlanSlices(const Layout& layout);

// "pp 3", or "all" in a layout without pipeline stages.
std::string ClassName(const Layout& layout, int32_t rank_class);
// Ranks of the class, ascending.
std::vector<int32_t> RanksOfClass(const Layout& layout, int32_t rank_class);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_RANK_PLAN_H_
