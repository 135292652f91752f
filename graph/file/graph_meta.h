// Between an execution graph and its metadata message.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_FILE_GRAPH_META_H_
#define VRANK_GRAPH_FILE_GRAPH_META_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/file/graph_file.pb.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

// Everything but where the ops lie.
GraphMeta ToMeta(const ExecutionGraph& graph);
// Everything but the programs. Ranks, classes and members refer to what exists.
absl::Status FromMeta(const GraphMeta& meta, ExecutionGraph* graph);
absl::StatusOr<Details> DetailsOf(const GraphMeta::Program& program);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FILE_GRAPH_META_H_
