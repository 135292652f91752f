// Two layouts that differ in the size of one dimension, and who of one is who of the
// other.
//
// Thread rule: immutable after construction.

#ifndef VRANK_GRAPH_SCALE_RESIZING_H_
#define VRANK_GRAPH_SCALE_RESIZING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/layout.h"

namespace vrank::graph {

class Resizing {
 public:
  // Errors: other dimensions, another order, two sizes that change, a dimension other
  // than dp and pp.
  static absl::StatusOr<Resizing> Make(Layout from, Layout to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  // What is resized: stages (pp), else replicas (dp).
  bool stages() const { return from_.dimensions()[dimension_].name == "pp"; }
  DimensionSet resized() const { return DimensionSet{1} << dimension_; }
  int32_t old_size() const { return from_.dimensions()[dimension_].size; }
  int32_t new_size() const { return to_.dimensions()[dimension_].size; }

  // Along the resized dimension.
  int32_t OldPlace(int32_t rank) const { return from_.Coordinate(rank, dimension_); }
  int32_t NewPlace(int32_t rank) const { return to_.Coordinate(rank, dimension_); }
  // The rank of `to` that is at `place` along the resized dimension, elsewhere where
  // `rank` of `from` is. REQUIRES: 0 <= place < new_size().
  int32_t RankAt(int32_t rank, int32_t place) const;

  // Who is, to the rank that `self` becomes (`becomes`), what `root` of `from` is to
  // `self`: the root of an operation, and the peer of a transfer. Of replicas the same
  // one; of stages the first, the last, its own and, as a peer, a neighbour. Errors:
  // none of these.
  absl::StatusOr<int32_t> Root(int32_t self, int32_t becomes, int32_t root) const;
  absl::StatusOr<int32_t> Peer(int32_t self, int32_t becomes, int32_t peer) const;

  // The stages of `to` that are, to its pipeline, what `stages` are to that of `from`:
  // the first one, the last one, all others. Errors: only some of the others.
  absl::StatusOr<std::vector<int32_t>> Stages(const std::vector<int32_t>& stages) const;

  // A member's share, where the whole stays as large.
  uint64_t ShareOf(uint64_t count) const;

 private:
  Resizing(Layout from, Layout to, size_t dimension)
      : from_(std::move(from)), to_(std::move(to)), dimension_(dimension) {}
  Layout from_, to_;
  size_t dimension_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_RESIZING_H_
