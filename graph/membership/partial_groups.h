// Groups that only another layout has, and that explain the calls of a split as well.
//
// A stated layout is a claim. Of the world, groups of any layout of up to four
// dimensions are looked at; of a smaller communicator those along a *part* of a stated
// dimension: every so many-th of its coordinates, so many in a row, or all but such a
// part. The groups of a layout are told only where no other groups would explain the
// calls that are seen.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_PARTIAL_GROUPS_H_
#define VRANK_GRAPH_MEMBERSHIP_PARTIAL_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/membership/split_question.h"

namespace vrank::graph {

// Another layout, and views of communicators under it.
struct CutLayout {
  Layout layout;
  std::vector<ParentView> views;
  // Sets of dimensions of which groups of the first view are made that no groups of the
  // stated layout are.
  std::vector<DimensionSet> partial_sets;
};
// All ways to cut a dimension along which the first view varies; if that is the world,
// also all other layouts of few dimensions.
std::vector<std::shared_ptr<const CutLayout>> CutLayouts(
    const std::vector<ParentView>& views);

struct PartialGroups {
  std::shared_ptr<const CutLayout> cut;
  DimensionSet dimensions = 0;       // of cut->layout
  std::vector<ColorFormula> colors;  // that predict all calls; empty if not asked for

  const ParentView& parent() const { return cut->views.front(); }
  // "ranks 0,1,4,5" for the group of a member.
  std::string Describe(uint32_t member) const;
};

// How many are enough to say that a layout is not told.
inline constexpr size_t kMostPartialGroups = 32;

// At most kMostPartialGroups. `by_formula`: those for which a formula for the colour
// and one for the key predict every call; otherwise those for which two calls share a
// colour exactly if they share a group.
std::vector<PartialGroups> FindPartialGroups(const SplitQuestion& question,
                                             bool by_formula);

// An init from a unique id, of which size and place are known.
struct InitObservation {
  int32_t rank = 0;
  uint32_t size = 0;
  uint32_t place = 0;
  std::string identity;  // equal for those that pass one unique id
};

// Groups of another layout of the same world, of which the stated layout has none.
struct OtherGroups {
  std::shared_ptr<const Layout> layout;
  DimensionSet dimensions = 0;

  std::vector<int32_t> Of(int32_t rank) const {
    return layout->Group(rank, dimensions);
  }
  bool Share(int32_t a, int32_t b) const {
    return layout->Combine(a, dimensions, b) == b;
  }
  // Whether the init may be one of these groups: of its size, with the caller at its
  // place.
  bool Fit(const InitObservation& init) const {
    return layout->GroupSize(dimensions) == init.size &&
           layout->PlaceInGroup(init.rank, dimensions) == init.place;
  }
  // Whether both may be: they pass one id exactly if they share a group.
  bool Explain(const InitObservation& a, const InitObservation& b) const {
    return Share(a.rank, b.rank) == (a.identity == b.identity);
  }
};

// All of a world of that layout, by size. Those of one size may have equal groups.
std::multimap<int64_t, OtherGroups> OtherGroupsBySize(const Layout& stated);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_PARTIAL_GROUPS_H_
