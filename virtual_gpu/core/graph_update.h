// Updates of an executable graph by a graph of the same shape (cudaGraphExecUpdate).
//
// Thread rule: pure functions of graphs, which the GPU's lock guards.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_UPDATE_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_UPDATE_H_

#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_types.h"

namespace vrank::gpu {

// How the new graph differs from the old one. Nodes correspond in the order in which
// they were made, as CUDA pairs those of graphs that were captured alike. `error_node`:
// of the new graph, or null.
UpdateResult Compare(const Graph& old_graph, const Graph& new_graph,
                     GraphNode** error_node);
// Gives the nodes of `to` copies of what those of `from` do. REQUIRES: Compare found no
// difference.
void TakeOver(Graph* to, const Graph& from);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_UPDATE_H_
