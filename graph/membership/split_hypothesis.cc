// Enumerating and evaluating colour and key formulas.

#include "graph/membership/split_hypothesis.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/membership/member_hash.h"

namespace vrank::graph {
namespace {

std::vector<size_t> Members(DimensionSet set, const Layout& layout) {
  std::vector<size_t> dimensions;
  for (size_t i = 0; i < layout.dimensions().size(); ++i) {
    if (set >> i & 1) {
      dimensions.push_back(i);
    }
  }
  return dimensions;
}

// The coordinates of a rank as one number; the first dimension is the lowest digit.
int64_t MixedRadix(const Layout& layout, int32_t rank,
                   const std::vector<size_t>& order) {
  int64_t value = 0;
  int64_t weight = 1;
  for (size_t dimension : order) {
    value += weight * layout.Coordinate(rank, dimension);
    weight *= layout.dimensions()[dimension].size;
  }
  return value;
}

// Every order of the dimensions in `set`.
std::vector<std::vector<size_t>> Orders(DimensionSet set, const Layout& layout) {
  std::vector<std::vector<size_t>> orders;
  std::vector<size_t> order = Members(set, layout);
  do {
    orders.push_back(order);
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

// What a group is ordered by, ascending.
int64_t OrderValue(const ParentView& parent, const KeyFormula& formula,
                   uint32_t member) {
  int64_t value = member;
  if (formula.order_by == KeyFormula::Order::kRank) {
    value = parent.ranks()[member];
  } else if (formula.order_by == KeyFormula::Order::kCoordinates) {
    value = MixedRadix(parent.layout(), parent.ranks()[member], formula.order);
  }
  return formula.descending ? -value : value;
}

// A member's index in its ordered group, where the group is complete and its other
// members' places follow from their coordinates: those that the formula mentions, then,
// among equals, the parent's order, which is known where it goes by rank.
std::optional<int64_t> IndexWithoutLooking(const ParentView& parent,
                                           DimensionSet dimensions,
                                           const KeyFormula& formula, uint32_t member,
                                           int64_t group_size) {
  const Layout& layout = parent.layout();
  if (group_size != layout.GroupSize(dimensions)) {
    return std::nullopt;
  }
  std::vector<size_t> inside;  // of the group, as mentioned
  DimensionSet mentioned = 0;
  if (formula.order_by == KeyFormula::Order::kCoordinates) {
    for (size_t dimension : formula.order) {
      if (dimensions >> dimension & 1) {
        inside.push_back(dimension);
        mentioned |= DimensionSet{1} << dimension;
      }
    }
  } else if (parent.ascending()) {
    // By rank: all dimensions, the fastest first.
    inside = Members(dimensions, layout);
    mentioned = dimensions;
  } else {
    return std::nullopt;
  }
  const DimensionSet rest = dimensions & ~mentioned;
  if (rest != 0 && !parent.ascending()) {
    return std::nullopt;
  }
  const int32_t rank = parent.ranks()[member];
  const int64_t place = MixedRadix(layout, rank, inside);
  const int64_t equals = layout.GroupSize(rest);
  return (formula.descending ? group_size / equals - 1 - place : place) * equals +
         layout.PlaceInGroup(rank, rest);
}

// A colour that is made of the group as a whole.
int64_t ColorOfGroup(const ParentView& parent, DimensionSet dimensions,
                     ColorFormula::Kind kind, uint32_t member) {
  const ParentView::Grouping& grouping = parent.GroupingBy(dimensions);
  const uint32_t place = grouping.group_of[member];
  const std::vector<uint32_t>& group = grouping.groups[place];
  if (kind == ColorFormula::Kind::kPlaceInList)
    return place;
  if (kind == ColorFormula::Kind::kFirstIndex)
    return group.front();
  std::vector<int32_t> ranks;
  for (const uint32_t other : group)
    ranks.push_back(parent.ranks()[other]);
  std::sort(ranks.begin(), ranks.end());
  return kind == ColorFormula::Kind::kFirstRank ? ranks.front() : MemberHash(ranks);
}

// The same where coordinates tell the group.
int64_t ColorOfRegular(const ParentView& parent, DimensionSet dimensions,
                       ColorFormula::Kind kind, uint32_t member) {
  const Layout& layout = parent.layout();
  const int32_t rank = parent.ranks()[member];
  if (kind == ColorFormula::Kind::kMemberHash)
    return MemberHash(layout.Group(rank, dimensions));
  const int32_t first = layout.Combine(rank, dimensions, 0);
  if (kind == ColorFormula::Kind::kFirstRank)
    return first;
  return layout.PlaceInGroup(first, kind == ColorFormula::Kind::kFirstIndex
                                        ? parent.varying()
                                        : parent.varying() & ~dimensions);
}

}  // namespace

std::shared_ptr<const ParentView::Members> ParentView::MakeMembers(
    std::vector<int32_t> ranks, std::vector<bool> joins) {
  auto members = std::make_shared<Members>();
  members->ascending = std::is_sorted(ranks.begin(), ranks.end());
  members->all_join = std::find(joins.begin(), joins.end(), false) == joins.end();
  for (uint32_t member = 0; member < ranks.size(); ++member)
    members->index.emplace(ranks[member], member);
  members->ranks = std::move(ranks);
  members->joins = std::move(joins);
  return members;
}

ParentView::ParentView(const Layout* layout, std::vector<int32_t> ranks,
                       std::vector<bool> joins)
    : ParentView(layout, MakeMembers(std::move(ranks), std::move(joins))) {}

ParentView::ParentView(const Layout* layout, std::shared_ptr<const Members> members)
    : layout_(layout),
      members_(std::move(members)),
      varying_(layout->Varying(members_->ranks)),
      regular_(members_->ascending && members_->all_join &&
               static_cast<int64_t>(members_->ranks.size()) ==
                   layout->GroupSize(varying_)) {}

std::optional<uint32_t> ParentView::Find(int32_t rank) const {
  const auto found = members_->index.find(rank);
  return found == members_->index.end() ? std::nullopt : std::optional(found->second);
}

const ParentView::Grouping& ParentView::GroupingBy(DimensionSet dimensions) const {
  const auto known = groupings_.find(dimensions);
  if (known != groupings_.end()) {
    return known->second;
  }
  Grouping grouping;
  grouping.group_of.assign(members_->ranks.size(), kNone);
  std::map<int32_t, uint32_t> group_of_first;  // by the rank with coordinates 0 inside
  for (uint32_t member = 0; member < members_->ranks.size(); ++member) {
    if (!members_->joins[member]) {
      continue;
    }
    const int32_t origin = layout_->Combine(members_->ranks[member], dimensions, 0);
    const auto [entry, is_new] =
        group_of_first.emplace(origin, static_cast<uint32_t>(grouping.groups.size()));
    if (is_new) {
      grouping.groups.emplace_back();
    }
    grouping.groups[entry->second].push_back(member);
    grouping.group_of[member] = entry->second;
  }
  return groupings_.emplace(dimensions, std::move(grouping)).first->second;
}

std::vector<ColorFormula> ColorFormulas(const Layout& layout, DimensionSet varying,
                                        DimensionSet dimensions) {
  using Kind = ColorFormula::Kind;
  // Coordinates outside the group: within the parent, or of the whole layout.
  std::set<std::vector<size_t>> orders;
  for (DimensionSet outside : {varying & ~dimensions, layout.all() & ~dimensions}) {
    for (std::vector<size_t>& order : Orders(outside, layout)) {
      orders.insert(std::move(order));
    }
  }
  std::vector<ColorFormula> formulas;
  for (const std::vector<size_t>& order : orders) {
    formulas.push_back({Kind::kCoordinates, order});
  }
  formulas.push_back({Kind::kPlaceInList, {}});
  formulas.push_back({Kind::kFirstRank, {}});
  formulas.push_back({Kind::kFirstIndex, {}});
  formulas.push_back({Kind::kMemberHash, {}});
  return formulas;
}

std::vector<KeyFormula> KeyFormulas(const Layout& layout, DimensionSet varying,
                                    DimensionSet dimensions) {
  using Order = KeyFormula::Order;
  using Value = KeyFormula::Value;
  std::set<std::vector<size_t>> orders;
  for (DimensionSet set : {dimensions, varying, layout.all()}) {
    for (std::vector<size_t>& order : Orders(set, layout)) {
      orders.insert(std::move(order));
    }
  }
  for (size_t dimension : Members(dimensions, layout)) {
    orders.insert({dimension});
  }
  std::vector<KeyFormula> formulas;
  for (bool descending : {false, true}) {
    for (Value value : {Value::kOrdered, Value::kIndex}) {
      formulas.push_back({Order::kParentIndex, {}, descending, value, 0});
      formulas.push_back({Order::kRank, {}, descending, value, 0});
      for (const std::vector<size_t>& order : orders) {
        formulas.push_back({Order::kCoordinates, order, descending, value, 0});
      }
    }
  }
  return formulas;
}

int64_t PredictColor(const ParentView& parent, DimensionSet dimensions,
                     const ColorFormula& formula, uint32_t member) {
  if (formula.kind == ColorFormula::Kind::kCoordinates) {
    return MixedRadix(parent.layout(), parent.ranks()[member], formula.order);
  }
  return parent.regular() ? ColorOfRegular(parent, dimensions, formula.kind, member)
                          : ColorOfGroup(parent, dimensions, formula.kind, member);
}

int64_t PredictKey(const ParentView& parent, DimensionSet dimensions,
                   const KeyFormula& formula, uint32_t member) {
  if (formula.value == KeyFormula::Value::kConstant) {
    return formula.constant;
  }
  const int64_t own = OrderValue(parent, formula, member);
  if (formula.value == KeyFormula::Value::kOrdered) {
    return own;
  }
  const ParentView::Grouping& grouping = parent.GroupingBy(dimensions);
  const std::vector<uint32_t>& group = grouping.groups[grouping.group_of[member]];
  if (const auto index = IndexWithoutLooking(parent, dimensions, formula, member,
                                             static_cast<int64_t>(group.size()))) {
    return *index;
  }
  int64_t index = 0;
  for (uint32_t other : group) {
    const int64_t value = OrderValue(parent, formula, other);
    index += value < own || (value == own && other < member) ? 1 : 0;
  }
  return index;
}

std::vector<uint32_t> OrderGroup(const ParentView& parent, const KeyFormula& formula,
                                 std::vector<uint32_t> group) {
  if (formula.value == KeyFormula::Value::kConstant) {
    return group;
  }
  std::vector<std::pair<int64_t, uint32_t>> keyed;  // the parent's order breaks ties
  keyed.reserve(group.size());
  for (uint32_t member : group) {
    keyed.emplace_back(OrderValue(parent, formula, member), member);
  }
  std::sort(keyed.begin(), keyed.end());
  for (size_t i = 0; i < group.size(); ++i) {
    group[i] = keyed[i].second;
  }
  return group;
}

std::string OrderName(const Layout& layout, DimensionSet dimensions,
                      const KeyFormula& formula) {
  // Significance of the dimensions that a group spans, the least first. What the
  // formula does not mention is ordered by the parent, below everything that it does
  // mention.
  const bool by_value = formula.value != KeyFormula::Value::kConstant;
  const bool by_coordinates = formula.order_by == KeyFormula::Order::kCoordinates;
  std::vector<size_t> mentioned;
  if (by_value) {
    for (size_t dimension :
         by_coordinates ? formula.order : Members(dimensions, layout)) {
      if (dimensions >> dimension & 1) {
        mentioned.push_back(dimension);
      }
    }
  }
  std::string name;
  for (size_t dimension : Members(dimensions, layout)) {
    if (std::find(mentioned.begin(), mentioned.end(), dimension) == mentioned.end()) {
      name += layout.dimensions()[dimension].name + "-";
    }
  }
  const bool descending = by_value && formula.descending;
  for (size_t dimension : mentioned) {
    name += layout.dimensions()[dimension].name + (descending ? "!-" : "-");
  }
  if (!name.empty() && name.back() == '-') {
    name.pop_back();
  }
  return name;
}

}  // namespace vrank::graph
