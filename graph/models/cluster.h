// A cluster chosen by `--cluster`: link classes with their latencies and bandwidths.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_MODELS_CLUSTER_H_
#define VRANK_GRAPH_MODELS_CLUSTER_H_

#include <string>

#include <absl/status/statusor.h>

#include "graph/models/cluster.pb.h"

namespace vrank::graph {

// `name_or_path`: the name of a description in DATA_DIR/clusters, or a file. An error
// names every problem of the file, or the names that exist.
absl::StatusOr<ClusterDescription> LoadCluster(const std::string& name_or_path,
                                               const std::string& data_dir);

// Ranks, that is processes, of a node: as many as it has GPUs, unless stated.
int32_t RanksPerNode(const ClusterDescription& cluster);

// True where the switch of a node reduces, so that half of the traffic enters each port
// and half leaves it: an all-reduce without steps from GPU to GPU.
bool ReducesInSwitch(const Algorithm& algorithm);

// OK, or every problem of the description.
absl::Status CheckCluster(const std::string& subject,
                          const ClusterDescription& cluster);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_CLUSTER_H_
