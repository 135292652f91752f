// Groups of a layout as communicators: their names, the hints that a person gave for
// them, and those that an init may be.
//
// Thread rule: const; safe from several threads. Ranks are world ranks. No errors.

#ifndef VRANK_GRAPH_MEMBERSHIP_LAYOUT_GROUPS_H_
#define VRANK_GRAPH_MEMBERSHIP_LAYOUT_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"

namespace vrank::graph {

// The processes of a communicator, from one caller's view: how many of its members each
// of them has, how many processes there are, and the caller's place among them.
struct InitProcesses {
  uint32_t members_each = 1;
  uint32_t count = 0;
  uint32_t place = 0;
};

class LayoutGroups {
 public:
  // `layout` outlives it.
  LayoutGroups(const Layout& layout, std::vector<GroupHint> hints)
      : layout_(layout), hints_(std::move(hints)) {}

  // "world", "tp@4": the rank's group.
  std::string NameOf(DimensionSet dimensions, int32_t rank) const;
  // The group that these are, in their order; else empty.
  std::string NameOf(const std::vector<int32_t>& ranks) const;

  // nullptr where there is none. `number`: of the parent's splits, or the caller's
  // inits.
  const GroupHint* FindSplitHint(DimensionSet parent, uint32_t number) const;
  const GroupHint* FindInitHint(int32_t caller, uint32_t number) const;

  // Those that have the caller at that place, and that a hint allows.
  std::vector<DimensionSet> Fitting(int32_t caller, const InitProcesses& processes,
                                    uint32_t number) const;

 private:
  const Layout& layout_;
  const std::vector<GroupHint> hints_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_LAYOUT_GROUPS_H_
