// cudart, chapter "Graph management": graphs, edges, and what can be seen of them.

#include <bit>
#include <vector>

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/graph_parameters.h"

using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::GraphDependency;
using vrank::gpu::GraphEdge;
using vrank::gpu::GraphEdgeData;
using vrank::gpu::Leave;
using vrank::gpu::WriteList;

namespace {

std::vector<GraphEdge> ReadEdges(const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                 const cudaGraphEdgeData* data, size_t count) {
  std::vector<GraphEdge> edges(from == nullptr || to == nullptr ? 0 : count);
  for (size_t i = 0; i < edges.size(); ++i) {
    edges[i].from = from[i];
    edges[i].to = to[i];
    if (data != nullptr)
      edges[i].data = std::bit_cast<GraphEdgeData>(data[i]);
  }
  return edges;
}

void WriteData(const std::vector<GraphEdgeData>& from, cudaGraphEdgeData* to,
               size_t count) {
  for (size_t i = 0; to != nullptr && i < count && i < from.size(); ++i)
    to[i] = std::bit_cast<cudaGraphEdgeData>(from[i]);
}

cudaError_t Neighbours(cudaGraphNode_t node, bool dependents, cudaGraphNode_t* nodes,
                       cudaGraphEdgeData* data, size_t* count,
                       const char* api = __builtin_FUNCTION()) {
  if (count == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call(
      [&](Gpu& gpu) {
        std::vector<GraphDependency> found;
        VRANK_RETURN_IF_FAILED(gpu.graphs().GetNeighbours(node, dependents, &found));
        std::vector<void*> handles;
        std::vector<GraphEdgeData> edges;
        for (const GraphDependency& dependency : found) {
          handles.push_back(dependency.node);
          edges.push_back(dependency.data);
        }
        WriteList(handles, nodes, count);
        if (nodes != nullptr)
          WriteData(edges, data, *count);
        return Error::kSuccess;
      },
      api);
}

}  // namespace

VRANK_CUDART cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  if (flags != 0)
    return Leave(cudaErrorInvalidValue);
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().Create(reinterpret_cast<void**>(graph)); });
}

VRANK_CUDART cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call([&](Gpu& gpu) { return gpu.graphs().Destroy(graph); });
}

VRANK_CUDART cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().Clone(graph, reinterpret_cast<void**>(clone));
  });
}

VRANK_CUDART cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* node,
                                                  cudaGraphNode_t original,
                                                  cudaGraph_t clone) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().FindInClone(original, clone, reinterpret_cast<void**>(node));
  });
}

VRANK_CUDART cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return Call([&](Gpu& gpu) { return gpu.graphs().DestroyNode(node); });
}

VRANK_CUDART cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node,
                                              cudaGraphNodeType* type) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().GetNodeType(node,
                                    reinterpret_cast<vrank::gpu::GraphNodeType*>(type));
  });
}

VRANK_CUDART cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                                           size_t* count) {
  if (count == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    std::vector<void*> found;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetNodes(graph, &found));
    WriteList(found, nodes, count);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph,
                                               cudaGraphNode_t* nodes, size_t* count) {
  if (count == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    std::vector<void*> found;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetRoots(graph, &found));
    WriteList(found, nodes, count);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                           cudaGraphNode_t* to, cudaGraphEdgeData* data,
                                           size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr))
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    std::vector<GraphEdge> found;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetEdges(graph, &found));
    std::vector<void*> sources, targets;
    std::vector<GraphEdgeData> edges;
    for (const GraphEdge& edge : found) {
      sources.push_back(edge.from);
      targets.push_back(edge.to);
      edges.push_back(edge.data);
    }
    size_t room = *count;
    WriteList(sources, from, &room);
    WriteList(targets, to, count);
    if (to != nullptr)
      WriteData(edges, data, *count);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                      cudaGraphNode_t* dependencies,
                                                      cudaGraphEdgeData* data,
                                                      size_t* count) {
  return Neighbours(node, /*dependents=*/false, dependencies, data, count);
}

VRANK_CUDART cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                        cudaGraphNode_t* dependents,
                                                        cudaGraphEdgeData* data,
                                                        size_t* count) {
  return Neighbours(node, /*dependents=*/true, dependents, data, count);
}

VRANK_CUDART cudaError_t cudaGraphAddDependencies(cudaGraph_t graph,
                                                  const cudaGraphNode_t* from,
                                                  const cudaGraphNode_t* to,
                                                  const cudaGraphEdgeData* data,
                                                  size_t count) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().Connect(graph, ReadEdges(from, to, data, count));
  });
}

VRANK_CUDART cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph,
                                                     const cudaGraphNode_t* from,
                                                     const cudaGraphNode_t* to,
                                                     const cudaGraphEdgeData* data,
                                                     size_t count) {
  return Call([&](Gpu& gpu) {
    return gpu.graphs().Disconnect(graph, ReadEdges(from, to, data, count));
  });
}

// What to print is up to the driver ("This API is intended for debugging"), so flags
// that ask for more change nothing.
VRANK_CUDART cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path,
                                                unsigned) {
  return Call([&](Gpu& gpu) { return gpu.graphs().PrintDot(graph, path); });
}
