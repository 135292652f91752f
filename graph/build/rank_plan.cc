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

namespace {

RankPlan::Entry EntryOf(const Layout& layout, int32_t rank) {
  RankPlan::Entry entry;
  entry.rank = rank;
  entry.rank_class = layout.ClassOf(rank);
  entry.class_size = layout.world_size() / layout.classes();
  entry.class_name = ClassName(layout, entry.rank_class);
  entry.coordinates = layout.Describe(rank);
  return entry;
}

}  // namespace

RankPlan PlanRanks(const Layout& layout) {
  RankPlan plan;
  const std::vector<int32_t> ranks = SuggestRealRanks(layout);
  plan.ambiguity = Ambiguity(layout, ranks);
  std::set<int32_t> served;
  for (const int32_t rank : ranks) {
    RankPlan::Entry entry = EntryOf(layout, rank);
    entry.deciding = !served.insert(entry.rank_class).second;
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

RankPlan PlanSlices(const Layout& layout) {
  RankPlan plan = PlanRanks(layout);
  if (plan.entries.front().rank != 0) {
    RankPlan::Entry entry = EntryOf(layout, 0);
    entry.deciding = true;
    entry.reason = "what it alone does (print, log, save)";
    plan.entries.insert(plan.entries.begin(), std::move(entry));
  }
  return plan;
}

}  // namespace vrank::graph
