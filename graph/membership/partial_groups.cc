// Enumerates the parts of dimensions and asks the calls about each.

#include "graph/membership/partial_groups.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"

namespace vrank::graph {
namespace {

constexpr int kMostPermuted = 6;  // dimensions outside a group: 720 orders

// Formulas for groups of a layout that was cut, which has more dimensions.
std::vector<ColorFormula> FormulasUnder(const ParentView& parent,
                                        DimensionSet dimensions) {
  const DimensionSet outside = parent.layout().all() & ~dimensions;
  if (std::popcount(outside) <= kMostPermuted)
    return ColorFormulas(parent.layout(), parent.varying(), dimensions);
  using Kind = ColorFormula::Kind;
  return {{Kind::kPlaceInList, {}},
          {Kind::kFirstRank, {}},
          {Kind::kFirstIndex, {}},
          {Kind::kMemberHash, {}}};
}

// A layout, and sets of its dimensions whose groups the stated one does not have.
struct LayoutAndSets {
  Layout layout;
  std::vector<DimensionSet> sets;
};

// Of dimension `index`: coordinates `stride` apart, `size` of them in a row.
LayoutAndSets Cut(const Layout& whole, size_t index, int32_t stride, int32_t size) {
  size_t place = 0;
  LayoutAndSets cut{whole.Cut(index, stride, size, &place), {}};
  const size_t added = cut.layout.dimensions().size() - whole.dimensions().size();
  const DimensionSet part = DimensionSet{1} << place;
  const DimensionSet parts = ((DimensionSet{2} << added) - 1) << index;
  for (DimensionSet set = 0; set <= cut.layout.all(); ++set) {
    const DimensionSet taken = set & parts;
    // Of two parts, the other one is the middle of another cut.
    if (taken == part || (added == 2 && taken == (parts & ~part)))
      cut.sets.push_back(set);
  }
  return cut;
}

// All ways to cut a dimension of `varying`.
void AddCuts(const Layout& whole, DimensionSet varying,
             std::vector<LayoutAndSets>* cuts) {
  for (size_t i = 0; i < whole.dimensions().size(); ++i) {
    if (!(varying >> i & 1))
      continue;
    const int32_t coordinates = whole.dimensions()[i].size;
    for (int32_t stride = 1; stride < coordinates; ++stride) {
      const int32_t most = coordinates % stride == 0 ? coordinates / stride : 0;
      for (int32_t size = 2; size <= most && size < coordinates; ++size)
        if (most % size == 0)
          cuts->push_back(Cut(whole, i, stride, size));
    }
  }
}

constexpr size_t kMostFactors = 4;  // dimensions of a layout that nobody stated

// What groups over `set` are, whatever the layout: steps between members and how many,
// steps that follow each other taken together.
using Signature = std::vector<std::pair<int32_t, int32_t>>;
Signature SignatureOf(const Layout& layout, DimensionSet set) {
  Signature signature;
  for (size_t i = 0; i < layout.dimensions().size(); ++i) {
    const Dimension& one = layout.dimensions()[i];
    if (!(set >> i & 1))
      continue;
    if (!signature.empty() &&
        signature.back().first * signature.back().second == one.stride)
      signature.back().second *= one.size;
    else
      signature.emplace_back(one.stride, one.size);
  }
  return signature;
}

void AddOtherLayouts(const Layout& stated, std::vector<LayoutAndSets>* others) {
  std::set<Signature> known;
  for (DimensionSet set = 0; set <= stated.all(); ++set)
    known.insert(SignatureOf(stated, set));
  for (size_t factors = 1; factors <= kMostFactors; ++factors) {
    for (const auto& sizes : Factorizations(stated.world_size(), factors)) {
      LayoutAndSets other{Layout::OfSizes(sizes), {}};
      for (DimensionSet set = 0; set <= other.layout.all(); ++set)
        if (!known.contains(SignatureOf(other.layout, set)))
          other.sets.push_back(set);
      if (!other.sets.empty())
        others->push_back(std::move(other));
    }
  }
}

// Where only some members join, groups of another layout may be the stated ones.
bool IsDeclared(const ParentView& declared, const ParentView& parent,
                DimensionSet dimensions) {
  if (declared.regular())
    return false;
  const ParentView::Grouping& grouping = parent.GroupingBy(dimensions);
  for (DimensionSet set = 0; set <= declared.layout().all(); ++set)
    if ((set & ~declared.varying()) == 0 && declared.GroupingBy(set) == grouping)
      return true;
  return false;
}

}  // namespace

std::string PartialGroups::Describe(uint32_t member) const {
  std::vector<int32_t> ranks;
  const ParentView::Grouping& grouping = parent().GroupingBy(dimensions);
  for (const uint32_t other : grouping.groups[grouping.group_of[member]])
    ranks.push_back(parent().ranks()[other]);
  std::sort(ranks.begin(), ranks.end());
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", FormatRanks(ranks));
}

std::vector<std::shared_ptr<const CutLayout>> CutLayouts(
    const std::vector<ParentView>& views) {
  const ParentView& parent = views.front();
  std::vector<LayoutAndSets> others;
  AddCuts(parent.layout(), parent.varying(), &others);
  if (parent.regular() && parent.varying() == parent.layout().all())
    AddOtherLayouts(parent.layout(), &others);
  std::vector<std::shared_ptr<const CutLayout>> cuts;
  for (LayoutAndSets& other : others) {
    auto cut = std::make_shared<CutLayout>(
        CutLayout{std::move(other.layout), {}, std::move(other.sets)});
    for (const ParentView& view : views)
      cut->views.push_back(view.Under(&cut->layout));
    // Groups are of members of the parent.
    const DimensionSet fixed = cut->layout.all() & ~cut->views.front().varying();
    std::erase_if(cut->partial_sets,
                  [fixed](DimensionSet set) { return (set & fixed) != 0; });
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::multimap<int64_t, OtherGroups> OtherGroupsBySize(const Layout& stated) {
  std::vector<LayoutAndSets> others;
  AddCuts(stated, stated.all(), &others);
  AddOtherLayouts(stated, &others);
  std::multimap<int64_t, OtherGroups> by_size;
  for (LayoutAndSets& other : others) {
    const auto layout = std::make_shared<const Layout>(std::move(other.layout));
    for (const DimensionSet set : other.sets)
      by_size.emplace(layout->GroupSize(set), OtherGroups{layout, set});
  }
  return by_size;
}

std::vector<PartialGroups> FindPartialGroups(const SplitQuestion& question,
                                             bool by_formula) {
  const auto& calls = question.observations;
  std::vector<PartialGroups> found;
  for (const auto& cut : CutLayouts(question.views)) {
    const ParentView& parent = cut->views.front();
    for (const DimensionSet set : cut->partial_sets) {
      if (FindContradiction(cut->views, calls, set).has_value())
        continue;
      PartialGroups groups{cut, set, {}};
      if (by_formula) {
        groups.colors =
            MatchingColors(cut->views, calls, set, FormulasUnder(parent, set));
        if (groups.colors.empty() || MatchingKeys(cut->views, calls, set).empty())
          continue;
      }
      if (IsDeclared(question.views.front(), parent, set))
        continue;
      found.push_back(std::move(groups));
      if (found.size() == kMostPartialGroups)
        return found;
    }
  }
  return found;
}

}  // namespace vrank::graph
