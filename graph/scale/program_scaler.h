// One rank's program, rewritten for another number of replicas (scale_graph.h).
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_
#define VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/layout.h"
#include "graph/replay/program.h"

namespace vrank::graph {

// Two layouts that differ in the size of one dimension.
class Resizing {
 public:
  static absl::StatusOr<Resizing> Make(Layout from, Layout to);

  const Layout& from() const { return from_; }
  const Layout& to() const { return to_; }
  DimensionSet resized() const { return resized_; }
  // The rank with the same coordinates; of replicas that are left out, one that stays.
  int32_t RankAt(int32_t rank) const;
  // Whether a coordinate along the resized dimension is kept.
  bool Keeps(int32_t rank) const;
  // A member's share, where the whole stays as large.
  uint64_t ShareOf(uint64_t count) const;

 private:
  Resizing(Layout from, Layout to, size_t dimension)
      : from_(std::move(from)),
        to_(std::move(to)),
        dimension_(dimension),
        resized_(DimensionSet{1} << dimension) {}
  Layout from_, to_;
  size_t dimension_;
  DimensionSet resized_;
};

// How much of a program is the other size's, and how much is assumed.
struct ScaleCounts {
  uint64_t sharded = 0;  // collectives whose share of a member changed
  uint64_t kept = 0;     // those that might have one, and were taken to have none
};

// `members`: world ranks of the rank's communicators, in order, by its own numbers;
// those of splits that left it out are missing.
absl::StatusOr<std::unique_ptr<Program>> ScaleProgram(
    const Resizing& resizing, int32_t rank, const Program& program,
    const std::map<uint32_t, std::vector<int32_t>>& members, ScaleCounts* counts);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_
