// What a split may mean: the ways in which programs compute colours and keys.
//
// ncclCommSplit tells only the caller's own colour and key. A *hypothesis* says what
// all members pass: which dimensions of the layout a group spans, a formula for the
// colour and a formula for the key. It predicts the colour and key of any member, so it
// can be checked against the members whose calls are known. The formulas are those that
// programs are written with:
//
//   colour   the coordinates outside the group as one number, in any order of
//   dimensions
//            (rank / tp, dp + dp_size * pp, ...); the group's place in a list of
//            groups; the rank or index of the group's first member; a hash of the
//            members' ranks (member_hash.h), which says all about the group
//   key      0 or another constant; the world rank; the index in the parent; the index
//   in
//            the group; coordinates as one number, in any order of dimensions; each of
//            them also descending
//
// Thread rule: ParentView is used by one thread (it remembers what it computed).

#ifndef VRANK_GRAPH_MEMBERSHIP_SPLIT_HYPOTHESIS_H_
#define VRANK_GRAPH_MEMBERSHIP_SPLIT_HYPOTHESIS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/membership/layout.h"

namespace vrank::graph {

// A parent communicator: its ranks in its order, and which of them pass a colour.
class ParentView {
 public:
  ParentView(const Layout* layout, std::vector<int32_t> ranks, std::vector<bool> joins);
  // The same members as another layout of the same ranks sees them.
  ParentView Under(const Layout* layout) const { return ParentView(layout, members_); }

  // The joining members fall into groups; those outside are in group kNone.
  static constexpr uint32_t kNone = 0xffffffff;
  struct Grouping {
    std::vector<uint32_t> group_of;             // per member
    std::vector<std::vector<uint32_t>> groups;  // members in the parent's order; groups
                                                // by their first member
    friend bool operator==(const Grouping& a, const Grouping& b) {
      return a.group_of == b.group_of;
    }
  };
  const Grouping& GroupingBy(DimensionSet dimensions) const;

  const Layout& layout() const { return *layout_; }
  const std::vector<int32_t>& ranks() const { return members_->ranks; }
  bool joins(uint32_t member) const { return members_->joins[member]; }
  DimensionSet varying() const { return varying_; }
  // Whether the members come by their ranks.
  bool ascending() const { return members_->ascending; }
  // Whether they are, by rank, a whole group of the layout, and all join: then a
  // member's group follows from its coordinates.
  bool regular() const { return regular_; }
  // Index of a world rank, or nullopt.
  std::optional<uint32_t> Find(int32_t rank) const;

 private:
  // What does not depend on the layout.
  struct Members {
    std::vector<int32_t> ranks;
    std::vector<bool> joins;
    bool ascending = false;
    bool all_join = false;
    std::map<int32_t, uint32_t> index;
  };
  ParentView(const Layout* layout, std::shared_ptr<const Members> members);
  static std::shared_ptr<const Members> MakeMembers(std::vector<int32_t> ranks,
                                                    std::vector<bool> joins);

  const Layout* layout_;
  std::shared_ptr<const Members> members_;
  DimensionSet varying_;
  bool regular_;
  mutable std::map<DimensionSet, Grouping> groupings_;
};

struct ColorFormula {
  enum class Kind { kCoordinates, kPlaceInList, kFirstRank, kFirstIndex, kMemberHash };
  Kind kind = Kind::kCoordinates;
  std::vector<size_t> order;  // kCoordinates: dimensions, the fastest first
};

struct KeyFormula {
  enum class Order { kParentIndex, kRank, kCoordinates };
  enum class Value { kConstant, kOrdered, kIndex };
  // What members of a group are ordered by ...
  Order order_by = Order::kParentIndex;
  std::vector<size_t> order;  // kCoordinates: dimensions, the fastest first
  bool descending = false;
  // ... and what the key is: nothing (equal keys: the parent's order), that very
  // number, or the index in the group so ordered.
  Value value = Value::kConstant;
  int64_t constant = 0;
};

// All formulas for groups that span `dimensions` of a parent that varies along
// `varying`.
std::vector<ColorFormula> ColorFormulas(const Layout& layout, DimensionSet varying,
                                        DimensionSet dimensions);
// Without the constant, which only observations can tell.
std::vector<KeyFormula> KeyFormulas(const Layout& layout, DimensionSet varying,
                                    DimensionSet dimensions);

// REQUIRES: parent.joins(member)
int64_t PredictColor(const ParentView& parent, DimensionSet dimensions,
                     const ColorFormula& formula, uint32_t member);
int64_t PredictKey(const ParentView& parent, DimensionSet dimensions,
                   const KeyFormula& formula, uint32_t member);

// A group's members in the order that the keys give.
std::vector<uint32_t> OrderGroup(const ParentView& parent, const KeyFormula& formula,
                                 std::vector<uint32_t> group);

// A name for the order within groups, equal for formulas that order the groups of the
// world alike: the dimensions that vary fastest first, "!" where they descend.
std::string OrderName(const Layout& layout, DimensionSet dimensions,
                      const KeyFormula& formula);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_SPLIT_HYPOTHESIS_H_
