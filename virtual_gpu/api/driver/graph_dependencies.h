// Lists of nodes and edges, between libcuda's structs and the virtual GPU's.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_DEPENDENCIES_H_
#define VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_DEPENDENCIES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/core/graph_types.h"

namespace vrank::gpu {

static_assert(sizeof(GraphEdgeData) == sizeof(CUgraphEdgeData));

// `edges` may be null: then whole nodes wait for whole nodes.
inline std::vector<GraphDependency> ReadDependencies(const CUgraphNode* nodes,
                                                     const CUgraphEdgeData* edges,
                                                     size_t count) {
  std::vector<GraphDependency> dependencies(nodes == nullptr ? 0 : count);
  for (size_t i = 0; i < dependencies.size(); ++i) {
    dependencies[i].node = nodes[i];
    if (edges != nullptr)
      dependencies[i].data = std::bit_cast<GraphEdgeData>(edges[i]);
  }
  return dependencies;
}

// Answers a list as CUDA's getters do: with a null `to` they say how many there are;
// otherwise `*count` is the room, what is left of it is cleared, and `*count` becomes
// what was written.
inline void WriteList(const std::vector<void*>& from, CUgraphNode* to, size_t* count) {
  if (to == nullptr) {
    *count = from.size();
    return;
  }
  const size_t written = std::min(*count, from.size());
  for (size_t i = 0; i < *count; ++i)
    to[i] = i < written ? static_cast<CUgraphNode>(from[i]) : nullptr;
  *count = written;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DRIVER_GRAPH_DEPENDENCIES_H_
