// Finds the layout that explains every communicator of every slice.
//
// Layouts of tp, cp, dp and pp are tried, those with fewer dimensions first. One
// explains the slices if, played under it, every communicator has the size and gives
// the place that the slice was told (trial.h), and if the traced ranks of each class
// communicate alike. Layouts under which every rank is in the same communicators are
// one answer; of those the one with the fewest classes is taken, then the first.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_LAYOUT_INFERENCE_H_
#define VRANK_GRAPH_BUILD_LAYOUT_INFERENCE_H_

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/build/trial.h"
#include "graph/membership/layout.h"

namespace vrank::graph {

// The layouts of so many dimensions that are tried, in that order.
// REQUIRES: 1 <= dimensions <= kMostDimensions.
inline constexpr size_t kMostDimensions = 4;
std::vector<Layout> LayoutsOf(int32_t world_size, size_t dimensions);

// An error where none explains them, or where two that mean different jobs do; then it
// names the rank whose slice would decide.
absl::StatusOr<Layout> InferLayout(int32_t world_size,
                                   const std::vector<std::string>& hints,
                                   const std::vector<TracedProgram>& traced,
                                   const ToldByRank& told);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_LAYOUT_INFERENCE_H_
