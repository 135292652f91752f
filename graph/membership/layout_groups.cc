// See layout_groups.h.

#include "graph/membership/layout_groups.h"

#include <algorithm>

#include <fmt/format.h>

namespace vrank::graph {

std::string LayoutGroups::NameOf(DimensionSet dimensions, int32_t rank) const {
  if (dimensions == layout_.all())
    return "world";
  return fmt::format("{}@{}", layout_.SetName(dimensions),
                     layout_.Combine(rank, dimensions, 0));
}

std::string LayoutGroups::NameOf(const std::vector<int32_t>& ranks) const {
  const DimensionSet set = layout_.Varying(ranks);
  return layout_.Group(ranks.front(), set) == ranks ? NameOf(set, ranks.front()) : "";
}

const GroupHint* LayoutGroups::FindSplitHint(DimensionSet parent,
                                             uint32_t number) const {
  for (const GroupHint& hint : hints_) {
    if (!hint.is_init && hint.number == number && hint.parent == parent)
      return &hint;
  }
  return nullptr;
}

const GroupHint* LayoutGroups::FindInitHint(int32_t caller, uint32_t number) const {
  const int32_t rank_class = layout_.ClassOf(caller);
  for (const GroupHint& hint : hints_) {
    if (hint.is_init && hint.number == number &&
        (hint.classes.empty() ||
         std::binary_search(hint.classes.begin(), hint.classes.end(), rank_class)))
      return &hint;
  }
  return nullptr;
}

std::vector<DimensionSet> LayoutGroups::Fitting(int32_t caller,
                                                const InitProcesses& processes,
                                                uint32_t number) const {
  const GroupHint* hint = FindInitHint(caller, number);
  std::vector<DimensionSet> fitting;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if (layout_.GroupSize(set) == processes.count &&
        (hint == nullptr || hint->dimensions == set) &&
        layout_.PlaceInGroup(caller, set) == processes.place)
      fitting.push_back(set);
  }
  return fitting;
}

}  // namespace vrank::graph
