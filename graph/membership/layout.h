// How the ranks of a job are arranged: "tp=8,pp=16,dp=8".
//
// A layout is a mixed-radix number system: a rank's coordinates are its digits, and the
// first dimension of the order varies fastest. Its groups are what training frameworks
// make communicators of: all ranks that share every coordinate outside a chosen set of
// dimensions. Ranks with the same pipeline coordinate run the same program; they are a
// *class*.
//
// Dimensions of size 1 say nothing about a rank and are left out after parsing.
//
// Thread rule: immutable after construction.

#ifndef VRANK_GRAPH_MEMBERSHIP_LAYOUT_H_
#define VRANK_GRAPH_MEMBERSHIP_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace vrank::graph {

// A set of dimensions of a layout: bit i stands for dimensions()[i].
using DimensionSet = uint32_t;

struct Dimension {
  std::string name;
  int32_t size = 1;
  int32_t stride = 1;  // ranks between neighbours along this dimension
};

// Every way to write `size` as a product of `factors` numbers above 1, in order.
// REQUIRES: factors > 0.
std::vector<std::vector<int32_t>> Factorizations(int32_t size, size_t factors);

class Layout {
 public:
  static constexpr int32_t kMaxWorldSize = 1 << 20;

  // "NAME=SIZE,...[,order=NAME-NAME-...]". The order begins with the dimension that
  // varies fastest; without it, it is tp-cp-ep-dp-pp. The product of the sizes must be
  // `world_size`.
  static absl::StatusOr<Layout> Parse(const std::string& text, int32_t world_size);
  // The same for a world of as many ranks as the sizes make, at most kMaxWorldSize.
  static absl::StatusOr<Layout> ParseWorld(const std::string& text);
  // One dimension, dp: all ranks run one program, as is taken where nobody stated one.
  static Layout Flat(int32_t world_size);
  // Dimensions of these sizes, the fastest first, without names or classes.
  static Layout OfSizes(const std::vector<int32_t>& sizes);
  // The same ranks, dimension `index` cut into at most three: of its coordinates, every
  // `stride`-th, `size` of them in a row, and what is left on both sides. `part` gets
  // the place of that middle part. All keep the name. No class is told by the result.
  // REQUIRES: stride * size divides the dimension's size, and size > 1.
  Layout Cut(size_t index, int32_t stride, int32_t size, size_t* part) const;

  int32_t world_size() const { return world_size_; }
  // Those of size > 1, the fastest first.
  const std::vector<Dimension>& dimensions() const { return dimensions_; }
  DimensionSet all() const { return (DimensionSet{1} << dimensions_.size()) - 1; }

  int32_t Coordinate(int32_t rank, size_t dimension) const {
    const Dimension& d = dimensions_[dimension];
    return rank / d.stride % d.size;
  }
  // The rank with the coordinates of `rank` outside `dimensions` and those of `other`
  // in them.
  int32_t Combine(int32_t rank, DimensionSet dimensions, int32_t other) const;
  // Ranks that share with `rank` all coordinates outside `dimensions`, ascending.
  std::vector<int32_t> Group(int32_t rank, DimensionSet dimensions) const;
  int64_t GroupSize(DimensionSet dimensions) const;
  // The place of `rank` in Group(rank, dimensions).
  int64_t PlaceInGroup(int32_t rank, DimensionSet dimensions) const;
  // Dimensions along which the ranks differ.
  DimensionSet Varying(const std::vector<int32_t>& ranks) const;

  // Ranks of one class run one program: the pipeline coordinate, or 0 without one.
  int32_t ClassOf(int32_t rank) const;
  int32_t classes() const;

  // "tp-dp"; "none" for the empty set (each rank for itself), "world" for all.
  std::string SetName(DimensionSet dimensions) const;
  absl::StatusOr<DimensionSet> ParseSet(const std::string& name) const;
  // "tp 3, pp 1": for messages.
  std::string Describe(int32_t rank) const;
  // "tp=8,dp=8,pp=16,order=tp-dp-pp"
  std::string ToString() const;
  // It was not stated (Flat): nothing is claimed of groups smaller than the world.
  bool is_default() const { return is_default_; }
  // For messages: whose word the layout is, and what to do where it is wrong: "the
  // layout tp=4,pp=2,order=tp-pp", "correct --layout".
  std::string Claim() const;
  std::string Remedy() const;

 private:
  static absl::StatusOr<Layout> ParseUpTo(const std::string& text, int32_t most);

  int32_t world_size_ = 1;
  std::vector<Dimension> dimensions_;
  int32_t pipeline_ = -1;  // index of pp, or -1
  bool is_default_ = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_LAYOUT_H_
