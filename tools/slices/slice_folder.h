// The slices of a job, as `vrank trace` leaves them in a folder.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_SLICES_SLICE_FOLDER_H_
#define VRANK_TOOLS_SLICES_SLICE_FOLDER_H_

#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/build/graph_builder.h"
#include "graph/program/execution_graph.h"

namespace vrank::tools {

// What a slice that failed leaves of a rank: `vrank trace` names it so.
inline constexpr char kRawSuffix[] = ".vtrace.raw";

// The .vtrace files among `places` (files, or folders that hold them), by name; with
// `with_raw` also what failed slices left, else those found in folders are added to
// *left_out. An error where there is none, or where one is named twice.
absl::StatusOr<std::vector<std::string>> ListSlices(
    const std::vector<std::string>& places, bool with_raw = false,
    std::vector<std::string>* left_out = nullptr);

// Reads the slices and builds the graph, with the times that tables of kernels
// (`kernel_times`, files) say. `progress` is told what is being done.
absl::StatusOr<graph::ExecutionGraph> BuildFromSlices(
    const std::vector<std::string>& files, graph::GraphBuildOptions options,
    const std::vector<std::string>& kernel_times,
    const std::function<void(const std::string&)>& progress);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_SLICES_SLICE_FOLDER_H_
