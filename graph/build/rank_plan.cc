#include "graph/build/rank_plan.h"

#include <set>

#include <fmt/format.h>

#include "graph/membership/real_rank_choice.h"

namespace vrank::graph {

std::string ClassName(const Layout& layout, int32_t rank_class) {
  return layout.classes() == 1 ? "all" : fmt::format("pp {}", rank_class);
}

std::vector<int32_t> RanksOfClass(const Layout& layout, int32_t rank_class) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < layout.world_size(); ++rank)
    if (layout.ClassOf(rank) == rank_class)
      ranks.push_back(rank);
  return ranks;
}

std::vector<int32_t> RankPlan::ranks() const {
  std::vector<int32_t> result;
  for (const Entry& entry : entries)
    result.push_back(entry.rank);
  return result;
}

RankPlan PlanRanks(const Layout& layout) {
  RankPlan plan;
  const std::vector<int32_t> ranks = SuggestRealRanks(layout);
  plan.ambiguity = Ambiguity(layout, ranks);
  std::set<int32_t> served;
  for (const int32_t rank : ranks) {
    RankPlan::Entry entry;
    entry.rank = rank;
    entry.rank_class = layout.ClassOf(rank);
    entry.class_size = layout.world_size() / layout.classes();
    entry.deciding = !served.insert(entry.rank_class).second;
    entry.class_name = ClassName(layout, entry.rank_class);
    entry.coordinates = layout.Describe(rank);
    if (entry.deciding)
      entry.reason = "tells groupings apart that the other ranks leave open";
    else if (entry.class_size == 1)
      entry.reason = fmt::format("the one rank of its class ({})", entry.class_name);
    else
      entry.reason = fmt::format("its class of {} ranks ({}) follows it",
                                 entry.class_size, entry.class_name);
    plan.entries.push_back(std::move(entry));
  }
  return plan;
}

}  // namespace vrank::graph
