// Enumerates the parts of dimensions and asks the calls about each.

#include "graph/membership/partial_groups.h"

#include <algorithm>
#include <bit>
#include <numeric>
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

// Of dimension `index`: coordinates `stride` apart, `size` of them in a row.
std::shared_ptr<const CutLayout> Cut(const std::vector<ParentView>& views, size_t index,
                                     int32_t stride, int32_t size) {
  const Layout& whole = views.front().layout();
  size_t place = 0;
  auto cut = std::make_shared<CutLayout>(
      CutLayout{whole.Cut(index, stride, size, &place), {}, {}});
  for (const ParentView& view : views)
    cut->views.push_back(view.Under(&cut->layout));

  const size_t added = cut->layout.dimensions().size() - whole.dimensions().size();
  const DimensionSet part = DimensionSet{1} << place;
  const DimensionSet parts = ((DimensionSet{2} << added) - 1) << index;
  const DimensionSet fixed = cut->layout.all() & ~cut->views.front().varying();
  for (DimensionSet set = 0; set <= cut->layout.all(); ++set) {
    const DimensionSet taken = set & parts;
    // Of two parts, the other one is the middle of another cut.
    if ((set & fixed) == 0 &&
        (taken == part || (added == 2 && taken == (parts & ~part))))
      cut->partial_sets.push_back(set);
  }
  return cut;
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

void AddOtherLayouts(const std::vector<ParentView>& views,
                     std::vector<std::shared_ptr<const CutLayout>>* cuts) {
  const Layout& stated = views.front().layout();
  std::set<Signature> known;
  for (DimensionSet set = 0; set <= stated.all(); ++set)
    known.insert(SignatureOf(stated, set));
  for (size_t factors = 1; factors <= kMostFactors; ++factors) {
    for (const auto& sizes : Factorizations(stated.world_size(), factors)) {
      auto other =
          std::make_shared<CutLayout>(CutLayout{Layout::OfSizes(sizes), {}, {}});
      for (DimensionSet set = 0; set <= other->layout.all(); ++set)
        if (!known.contains(SignatureOf(other->layout, set)))
          other->partial_sets.push_back(set);
      if (other->partial_sets.empty())
        continue;
      for (const ParentView& view : views)
        other->views.push_back(view.Under(&other->layout));
      cuts->push_back(std::move(other));
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
  std::vector<std::shared_ptr<const CutLayout>> cuts;
  const std::vector<Dimension>& dimensions = views.front().layout().dimensions();
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (!(views.front().varying() >> i & 1))
      continue;
    const int32_t whole = dimensions[i].size;
    for (int32_t stride = 1; stride < whole; ++stride) {
      const int32_t most = whole % stride == 0 ? whole / stride : 0;
      for (int32_t size = 2; size <= most && size < whole; ++size)
        if (most % size == 0)
          cuts.push_back(Cut(views, i, stride, size));
    }
  }
  const ParentView& parent = views.front();
  if (parent.regular() && parent.varying() == parent.layout().all())
    AddOtherLayouts(views, &cuts);
  return cuts;
}

std::optional<std::vector<int32_t>> FindPartialInitGroup(
    const Layout& layout, const std::vector<InitObservation>& inits) {
  const auto explains = [&](const Layout& cut, DimensionSet set) {
    const auto group = [&](const InitObservation& init) {
      return cut.Combine(init.rank, set, 0);
    };
    const InitObservation& first = inits.front();
    return std::all_of(inits.begin(), inits.end(), [&](const InitObservation& init) {
      return cut.GroupSize(set) == init.size &&
             cut.PlaceInGroup(init.rank, set) == init.place &&
             (group(init) == group(first)) == (init.identity == first.identity);
    });
  };
  std::vector<int32_t> ranks(static_cast<size_t>(layout.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<bool> joins(ranks.size(), true);
  const ParentView world(&layout, std::move(ranks), std::move(joins));
  for (const auto& cut : CutLayouts({world}))
    for (const DimensionSet set : cut->partial_sets)
      if (explains(cut->layout, set))
        return cut->layout.Group(inits.front().rank, set);
  return std::nullopt;
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
