// libcuda, chapter "Graph management": graphs, edges, and what can be seen of them.
//
// The functions named _v2 speak of the data of edges; those without are from before.

#include <bit>
#include <vector>

#include "virtual_gpu/api/driver/graph_dependencies.h"

using vrank::gpu::Alias;
using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::GraphDependency;
using vrank::gpu::GraphEdge;
using vrank::gpu::GraphEdgeData;
using vrank::gpu::GraphNodeType;
using vrank::gpu::ProcessGpu;
using vrank::gpu::WriteList;

namespace {

std::vector<GraphEdge> ReadEdges(const CUgraphNode* from, const CUgraphNode* to,
                                 const CUgraphEdgeData* data, size_t count) {
  std::vector<GraphEdge> edges(from == nullptr || to == nullptr ? 0 : count);
  for (size_t i = 0; i < edges.size(); ++i) {
    edges[i].from = from[i];
    edges[i].to = to[i];
    if (data != nullptr)
      edges[i].data = std::bit_cast<GraphEdgeData>(data[i]);
  }
  return edges;
}

void WriteData(const std::vector<GraphEdgeData>& from, CUgraphEdgeData* to,
               size_t count) {
  for (size_t i = 0; to != nullptr && i < count && i < from.size(); ++i)
    to[i] = std::bit_cast<CUgraphEdgeData>(from[i]);
}

CUresult Neighbours(CUgraphNode node, bool dependents, CUgraphNode* nodes,
                    CUgraphEdgeData* data, size_t* count,
                    const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        std::vector<GraphDependency> found;
        if (count == nullptr)
          return Error::kInvalidValue;
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

VRANK_CUDA CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().Create(reinterpret_cast<void**>(graph));
  });
}

VRANK_CUDA CUresult cuGraphDestroy(CUgraph graph) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.graphs().Destroy(graph); });
}

VRANK_CUDA CUresult cuGraphClone(CUgraph* clone, CUgraph graph) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().Clone(graph, reinterpret_cast<void**>(clone));
  });
}

VRANK_CUDA CUresult cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original,
                                           CUgraph clone) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().FindInClone(original, clone, reinterpret_cast<void**>(node));
  });
}

VRANK_CUDA CUresult cuGraphDestroyNode(CUgraphNode node) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.graphs().DestroyNode(node); });
}

VRANK_CUDA CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().GetNodeType(node, reinterpret_cast<GraphNodeType*>(type));
  });
}

VRANK_CUDA CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return CallInContext([&](ProcessGpu& gpu) {
    std::vector<void*> found;
    if (count == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetNodes(graph, &found));
    WriteList(found, nodes, count);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes,
                                        size_t* count) {
  return CallInContext([&](ProcessGpu& gpu) {
    std::vector<void*> found;
    if (count == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.graphs().GetRoots(graph, &found));
    WriteList(found, nodes, count);
    return Error::kSuccess;
  });
}

#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies

VRANK_CUDA CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from,
                                       CUgraphNode* to, CUgraphEdgeData* data,
                                       size_t* count) {
  if (count == nullptr || (from == nullptr) != (to == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
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
VRANK_CUDA CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                    size_t* count) {
  return Alias([&] { return cuGraphGetEdges_v2(graph, from, to, nullptr, count); });
}

VRANK_CUDA CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node,
                                                  CUgraphNode* dependencies,
                                                  CUgraphEdgeData* data,
                                                  size_t* count) {
  return Neighbours(node, /*dependents=*/false, dependencies, data, count);
}
VRANK_CUDA CUresult cuGraphNodeGetDependencies(CUgraphNode node,
                                               CUgraphNode* dependencies,
                                               size_t* count) {
  return Neighbours(node, /*dependents=*/false, dependencies, nullptr, count);
}

VRANK_CUDA CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node,
                                                    CUgraphNode* dependents,
                                                    CUgraphEdgeData* data,
                                                    size_t* count) {
  return Neighbours(node, /*dependents=*/true, dependents, data, count);
}
VRANK_CUDA CUresult cuGraphNodeGetDependentNodes(CUgraphNode node,
                                                 CUgraphNode* dependents,
                                                 size_t* count) {
  return Neighbours(node, /*dependents=*/true, dependents, nullptr, count);
}

VRANK_CUDA CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to,
                                              const CUgraphEdgeData* data,
                                              size_t count) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().Connect(graph, ReadEdges(from, to, data, count));
  });
}
VRANK_CUDA CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                           const CUgraphNode* to, size_t count) {
  return Alias(
      [&] { return cuGraphAddDependencies_v2(graph, from, to, nullptr, count); });
}

VRANK_CUDA CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                                 const CUgraphNode* to,
                                                 const CUgraphEdgeData* data,
                                                 size_t count) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().Disconnect(graph, ReadEdges(from, to, data, count));
  });
}
VRANK_CUDA CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, size_t count) {
  return Alias(
      [&] { return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count); });
}

// What to print is up to the driver, so flags that ask for more change nothing.
VRANK_CUDA CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().PrintDot(graph, path); });
}
