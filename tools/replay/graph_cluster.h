// The cluster that a graph is played on: its own, or what a flag gives instead.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_REPLAY_GRAPH_CLUSTER_H_
#define VRANK_TOOLS_REPLAY_GRAPH_CLUSTER_H_

#include <cstdint>
#include <string>

#include <absl/status/statusor.h>

#include "graph/models/cluster.h"
#include "graph/program/execution_graph.h"
#include "tools/machine/installation.h"

namespace vrank::tools {

struct GraphCluster {
  // "hgx-h100-ib400", with ", 4 ranks per node" where that is not one per GPU, and with
  // what the graph has where the flag gave something else.
  std::string text;
  graph::ClusterDescription description;
};

// `cluster`: a flag; empty: the graph's. Ranks that were traced with --ranks-per-node
// stay on such nodes, but where a description that the flag gives states others. An
// error where the file of the graph's own description is no longer what it was.
// REQUIRES: the graph or `cluster` names a cluster.
absl::StatusOr<GraphCluster> ClusterOf(const graph::ExecutionGraph& graph,
                                       const Installation& installation,
                                       const std::string& cluster);

// What --ranks-per-node stated when the graph was traced; 0: nothing.
absl::StatusOr<uint32_t> RanksPerNodeOf(const graph::ExecutionGraph& graph);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_GRAPH_CLUSTER_H_
