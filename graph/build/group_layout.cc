#include "graph/build/group_layout.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "graph/build/layout_inference.h"
#include "graph/build/slice_agreement.h"

namespace vrank::graph {
namespace {

// A communicator as one of its members made it.
struct Made {
  std::string parent;            // identity; empty: an init
  uint32_t number = 0;           // among the splits of that parent
  std::vector<int32_t> members;  // ascending
};

std::set<std::tuple<std::string, uint32_t, std::vector<int32_t>>> ListMade(
    std::span<const SeenRank> by_rank) {
  std::set<std::tuple<std::string, uint32_t, std::vector<int32_t>>> made;
  for (const SeenRank& rank : by_rank) {
    std::map<uint32_t, uint32_t> splits;  // by the rank's number of the parent
    for (uint64_t i = 0; i < rank.end; ++i) {
      const Op& op = rank.program->op(i);
      if (op.kind != OpKind::kCreateCommunicator)
        continue;
      const Creation& call = rank.program->details().creations[op.b];
      const uint32_t number = call.parent == 0 ? 0 : splits[call.parent]++;
      const auto child = rank.communicators.find(op.a);
      const auto parent = rank.communicators.find(call.parent);
      if (child == rank.communicators.end() ||
          (call.parent != 0 && parent == rank.communicators.end()))
        continue;
      std::vector<int32_t> members = child->second.members;
      std::sort(members.begin(), members.end());
      // A process with several members is one place of the layout.
      members.erase(std::unique(members.begin(), members.end()), members.end());
      made.emplace(call.parent == 0 ? "" : parent->second.identity, number,
                   std::move(members));
    }
  }
  return made;
}

class Fit {
 public:
  explicit Fit(std::span<const SeenRank> by_rank) : by_rank_(by_rank) {
    for (const auto& [parent, number, members] : ListMade(by_rank))
      made_.push_back({parent, number, members});
  }

  bool Holds(const Layout& layout) const {
    // Of each split: the groups that have a child, by their lowest rank.
    std::set<std::tuple<std::string, uint32_t, DimensionSet, int32_t>> taken;
    for (const Made& made : made_) {
      const DimensionSet dimensions = layout.Varying(made.members);
      const std::vector<int32_t> group = layout.Group(made.members.front(), dimensions);
      if (made.parent.empty()) {
        if (made.members != group)
          return false;
        continue;
      }
      if (made.members != WithClassesOf(layout, group, made.members) ||
          !taken.emplace(made.parent, made.number, dimensions, group.front()).second)
        return false;
    }
    return ClassesAreAlike(layout);
  }

 private:
  static std::vector<int32_t> WithClassesOf(const Layout& layout,
                                            const std::vector<int32_t>& group,
                                            const std::vector<int32_t>& members) {
    std::set<int32_t> classes;
    for (const int32_t rank : members)
      classes.insert(layout.ClassOf(rank));
    std::vector<int32_t> result;
    std::copy_if(
        group.begin(), group.end(), std::back_inserter(result),
        [&](int32_t rank) { return classes.count(layout.ClassOf(rank)) != 0; });
    return result;
  }

  bool ClassesAreAlike(const Layout& layout) const {
    std::map<int32_t, const SeenRank*> first;
    for (size_t rank = 0; rank < by_rank_.size(); ++rank) {
      const SeenRank& seen = by_rank_[rank];
      const auto [other, is_new] =
          first.emplace(layout.ClassOf(static_cast<int32_t>(rank)), &seen);
      if (!is_new && !CommunicationDifference(*other->second->program, *seen.program,
                                              other->second->end, seen.end)
                          .empty())
        return false;
    }
    return true;
  }

  std::span<const SeenRank> by_rank_;
  std::vector<Made> made_;
};

}  // namespace

absl::StatusOr<Layout> LayoutOfCommunicators(std::span<const SeenRank> by_rank) {
  const auto world_size = static_cast<int32_t>(by_rank.size());
  if (world_size == 1)
    return Layout::Flat(1);
  const Fit fit(by_rank);
  for (size_t dimensions = 1; dimensions <= kMostDimensions; ++dimensions) {
    std::optional<Layout> best;
    for (Layout& layout : LayoutsOf(world_size, dimensions))
      if ((!best || layout.classes() < best->classes()) && fit.Holds(layout))
        best = std::move(layout);
    if (best)
      return *std::move(best);
  }
  return absl::FailedPreconditionError(fmt::format(
      "no layout of tp, cp, dp and pp has all communicators of the {} ranks as its "
      "groups, and ranks that do the same in one stage; state --layout",
      world_size));
}

}  // namespace vrank::graph
