// A graph as a file of Graphviz (cudaGraphDebugDotPrint).
//
// Thread rule: a pure function of the graph, which the GPU's lock guards.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_DOT_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_DOT_H_

#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/graph.h"

namespace vrank::gpu {

// kOperatingSystem where the file cannot be written.
Error PrintDot(const Graph& graph, const char* path);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_DOT_H_
