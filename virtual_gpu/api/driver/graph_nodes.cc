// libcuda, chapter "Graph management": nodes of each kind.

#include <variant>

#include "virtual_gpu/api/driver/graph_dependencies.h"
#include "virtual_gpu/api/driver/graph_parameters.h"

using vrank::gpu::Alias;
using vrank::gpu::AllocationParameters;
using vrank::gpu::CallInContext;
using vrank::gpu::ChildGraphParameters;
using vrank::gpu::CopyRequest;
using vrank::gpu::EmptyParameters;
using vrank::gpu::Error;
using vrank::gpu::EventRecordParameters;
using vrank::gpu::EventWaitParameters;
using vrank::gpu::FillRequest;
using vrank::gpu::FreeParameters;
using vrank::gpu::GraphNodeParameters;
using vrank::gpu::Graphs;
using vrank::gpu::HostCallParameters;
using vrank::gpu::KernelLaunch;
using vrank::gpu::ProcessGpu;
using vrank::gpu::Read;
using vrank::gpu::ReadDependencies;
using vrank::gpu::Write;

namespace {

// What a node comes after, as an entry point got it.
struct After {
  const CUgraphNode* nodes;
  size_t count;
  const CUgraphEdgeData* edges = nullptr;
};

CUresult AddRead(CUgraphNode* node, CUgraph graph, const After& after, Error read,
                 GraphNodeParameters* parameters, const char* api) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        VRANK_RETURN_IF_FAILED(read);
        return gpu.graphs().AddNode(
            graph, ReadDependencies(after.nodes, after.edges, after.count), parameters,
            reinterpret_cast<void**>(node));
      },
      api);
}

// Adds a node of what `from` says, or of the parameters themselves.
template <typename From>
CUresult Add(CUgraphNode* node, CUgraph graph, const After& after, const From* from,
             const char* api = __builtin_FUNCTION()) {
  GraphNodeParameters parameters;
  const Error read = Read(from, &parameters);
  return AddRead(node, graph, after, read, &parameters, api);
}
CUresult Add(CUgraphNode* node, CUgraph graph, const After& after,
             GraphNodeParameters parameters, const char* api = __builtin_FUNCTION()) {
  return AddRead(node, graph, after, Error::kSuccess, &parameters, api);
}

CUresult SetValue(CUgraphNode node, const GraphNodeParameters& parameters,
                  const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().SetNodeParameters(node, parameters); },
      api);
}
template <typename From>
CUresult Set(CUgraphNode node, const From* from,
             const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(Read(from, &parameters));
        return gpu.graphs().SetNodeParameters(node, parameters);
      },
      api);
}

// The node's parameters, if they are of this type.
template <typename Parameters, typename Take>
CUresult Get(CUgraphNode node, const void* answer, Take take,
             const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(gpu.graphs().GetNodeParameters(node, &parameters));
        const auto* found = std::get_if<Parameters>(&parameters);
        if (found == nullptr || answer == nullptr)
          return Error::kInvalidValue;
        take(*found);
        return Error::kSuccess;
      },
      api);
}
template <typename Parameters, typename To>
CUresult GetInto(CUgraphNode node, To* to, const char* api = __builtin_FUNCTION()) {
  return Get<Parameters>(
      node, to, [&](const Parameters& from) { Write(from, to); }, api);
}

}  // namespace

// --- Any node
// ----------------------------------------------------------------------------

VRANK_CUDA CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies,
                                      const CUgraphEdgeData* edges, size_t count,
                                      CUgraphNodeParams* parameters) {
  const CUresult result = Add(node, graph, {dependencies, count, edges}, parameters);
  if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return Get<AllocationParameters>(
        *node, node, [&](const AllocationParameters& from) {
          parameters->alloc.dptr = reinterpret_cast<CUdeviceptr>(from.address);
        });
  if (result == CUDA_SUCCESS && parameters->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return Get<ChildGraphParameters>(
        *node, node, [&](const ChildGraphParameters& from) {
          parameters->graph.graph = static_cast<CUgraph>(from.graph);
        });
  return result;
}
// The form before edges had data.
#undef cuGraphAddNode
VRANK_CUDA CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies, size_t count,
                                   CUgraphNodeParams* parameters) {
  return Alias([&] {
    return cuGraphAddNode_v2(node, graph, dependencies, nullptr, count, parameters);
  });
}

VRANK_CUDA CUresult cuGraphNodeSetParams(CUgraphNode node,
                                         CUgraphNodeParams* parameters) {
  return Set(node, parameters);
}

// --- Kernels
// -----------------------------------------------------------------------------

#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams

VRANK_CUDA CUresult cuGraphAddKernelNode_v2(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
    const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return Add(node, graph, {dependencies, count}, parameters);
}
VRANK_CUDA CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies, size_t count,
                                         const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return Add(node, graph, {dependencies, count}, parameters);
}
VRANK_CUDA CUresult cuGraphKernelNodeGetParams_v2(
    CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return GetInto<KernelLaunch>(node, parameters);
}
VRANK_CUDA CUresult cuGraphKernelNodeGetParams(CUgraphNode node,
                                               CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return GetInto<KernelLaunch>(node, parameters);
}
VRANK_CUDA CUresult cuGraphKernelNodeSetParams_v2(
    CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return Set(node, parameters);
}
VRANK_CUDA CUresult cuGraphKernelNodeSetParams(
    CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return Set(node, parameters);
}

VRANK_CUDA CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().CopyKernelAttributes(to, from); });
}
VRANK_CUDA CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node,
                                                  CUlaunchAttributeID id,
                                                  CUlaunchAttributeValue* value) {
  static_assert(sizeof(CUlaunchAttributeValue) == Graphs::kAttributeBytes);
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().GetKernelAttribute(node, id, value);
  });
}
VRANK_CUDA CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node,
                                                  CUlaunchAttributeID id,
                                                  const CUlaunchAttributeValue* value) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().SetKernelAttribute(node, id, value);
  });
}

// --- Copies and memsets; each device has one context
// -------------------------------------

VRANK_CUDA CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies, size_t count,
                                         const CUDA_MEMCPY3D* parameters, CUcontext) {
  return Add(node, graph, {dependencies, count}, parameters);
}
VRANK_CUDA CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node,
                                               CUDA_MEMCPY3D* parameters) {
  return GetInto<CopyRequest>(node, parameters);
}
VRANK_CUDA CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node,
                                               const CUDA_MEMCPY3D* parameters) {
  return Set(node, parameters);
}

VRANK_CUDA CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies, size_t count,
                                         const CUDA_MEMSET_NODE_PARAMS* parameters,
                                         CUcontext) {
  return Add(node, graph, {dependencies, count}, parameters);
}
VRANK_CUDA CUresult cuGraphMemsetNodeGetParams(CUgraphNode node,
                                               CUDA_MEMSET_NODE_PARAMS* parameters) {
  return GetInto<FillRequest>(node, parameters);
}
VRANK_CUDA CUresult cuGraphMemsetNodeSetParams(
    CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* parameters) {
  return Set(node, parameters);
}

// --- Host functions, events, empty nodes, child graphs
// -----------------------------------

VRANK_CUDA CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies, size_t count,
                                       const CUDA_HOST_NODE_PARAMS* parameters) {
  return Add(node, graph, {dependencies, count}, parameters);
}
VRANK_CUDA CUresult cuGraphHostNodeGetParams(CUgraphNode node,
                                             CUDA_HOST_NODE_PARAMS* parameters) {
  return GetInto<HostCallParameters>(node, parameters);
}
VRANK_CUDA CUresult cuGraphHostNodeSetParams(CUgraphNode node,
                                             const CUDA_HOST_NODE_PARAMS* parameters) {
  return Set(node, parameters);
}

VRANK_CUDA CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* dependencies,
                                              size_t count, CUevent event) {
  return Add(node, graph, {dependencies, count}, EventRecordParameters{event});
}
VRANK_CUDA CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return Get<EventRecordParameters>(node, event,
                                    [&](const EventRecordParameters& from) {
                                      *event = static_cast<CUevent>(from.event);
                                    });
}
VRANK_CUDA CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetValue(node, EventRecordParameters{event});
}

VRANK_CUDA CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                            const CUgraphNode* dependencies,
                                            size_t count, CUevent event) {
  return Add(node, graph, {dependencies, count}, EventWaitParameters{event});
}
VRANK_CUDA CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return Get<EventWaitParameters>(node, event, [&](const EventWaitParameters& from) {
    *event = static_cast<CUevent>(from.event);
  });
}
VRANK_CUDA CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetValue(node, EventWaitParameters{event});
}

VRANK_CUDA CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies, size_t count) {
  return Add(node, graph, {dependencies, count}, EmptyParameters{});
}

VRANK_CUDA CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph,
                                             const CUgraphNode* dependencies,
                                             size_t count, CUgraph child) {
  return Add(node, graph, {dependencies, count}, ChildGraphParameters{child});
}
VRANK_CUDA CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* graph) {
  return Get<ChildGraphParameters>(node, graph, [&](const ChildGraphParameters& from) {
    *graph = static_cast<CUgraph>(from.graph);
  });
}

// --- Memory
// ------------------------------------------------------------------------------

VRANK_CUDA CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies,
                                           size_t count,
                                           CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  const CUresult result =
      Add(node, graph, {dependencies, count},
          const_cast<const CUDA_MEM_ALLOC_NODE_PARAMS*>(parameters));
  if (result != CUDA_SUCCESS)
    return result;
  return Get<AllocationParameters>(*node, node, [&](const AllocationParameters& from) {
    parameters->dptr = reinterpret_cast<CUdeviceptr>(from.address);
  });
}
VRANK_CUDA CUresult
cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  return GetInto<AllocationParameters>(node, parameters);
}

VRANK_CUDA CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph,
                                          const CUgraphNode* dependencies, size_t count,
                                          CUdeviceptr address) {
  return Add(node, graph, {dependencies, count},
             FreeParameters{reinterpret_cast<void*>(address)});
}
VRANK_CUDA CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node,
                                                CUdeviceptr* address) {
  return Get<FreeParameters>(node, address, [&](const FreeParameters& from) {
    *address = reinterpret_cast<CUdeviceptr>(from.address);
  });
}
