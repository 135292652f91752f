#include "emulator/world/cast.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "graph/membership/leader.h"

namespace vrank::emulator {

absl::StatusOr<std::vector<VirtualRank>> CastByClass(
    const graph::Layout& layout, std::span<const int32_t> real, bool assume_absent,
    std::span<const int32_t> on_their_own) {
  const std::set<int32_t> alone(on_their_own.begin(), on_their_own.end());
  std::map<int32_t, int32_t> leaders;  // by class
  for (const int32_t rank : real) {
    const auto [leader, added] = leaders.try_emplace(layout.ClassOf(rank), rank);
    graph::TakeLead(&leader->second, rank);
  }
  std::vector<VirtualRank> cast;
  std::vector<int32_t> empty_classes, suggestions(real.begin(), real.end());
  for (int32_t rank = 0; rank < layout.world_size(); ++rank) {
    if (std::find(real.begin(), real.end(), rank) != real.end())
      continue;
    const int32_t rank_class = layout.ClassOf(rank);
    if (alone.count(rank) != 0) {
      cast.push_back(VirtualRank{rank, VirtualRank::Part::kAbsent, -1, nullptr});
      continue;
    }
    const auto leader = leaders.find(rank_class);
    if (leader != leaders.end()) {
      cast.push_back(
          VirtualRank{rank, VirtualRank::Part::kFollower, leader->second, nullptr});
      continue;
    }
    cast.push_back(VirtualRank{rank, VirtualRank::Part::kAbsent, -1, nullptr});
    if (std::find(empty_classes.begin(), empty_classes.end(), rank_class) ==
        empty_classes.end()) {
      empty_classes.push_back(rank_class);
      suggestions.push_back(rank);
    }
  }
  if (empty_classes.empty() || assume_absent)
    return cast;
  std::sort(empty_classes.begin(), empty_classes.end());
  std::sort(suggestions.begin(), suggestions.end());
  return absl::InvalidArgumentError(fmt::format(
      "pipeline stage{} {} of {}: no real rank to follow and no program to play; use "
      "--real {}, or --assume-absent to let {} arrive whenever the others do",
      empty_classes.size() > 1 ? "s" : "", FormatRanks(empty_classes), layout.classes(),
      FormatRanks(suggestions), empty_classes.size() > 1 ? "them" : "it"));
}

}  // namespace vrank::emulator
