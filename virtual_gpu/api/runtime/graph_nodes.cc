// cudart, chapter "Graph management": nodes of each kind.

#include <variant>

#include "virtual_gpu/api/runtime/copy_request.h"
#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/graph_parameters.h"

using vrank::gpu::AllocationParameters;
using vrank::gpu::Call;
using vrank::gpu::ChildGraphParameters;
using vrank::gpu::CopyRequest;
using vrank::gpu::EmptyParameters;
using vrank::gpu::Error;
using vrank::gpu::EventRecordParameters;
using vrank::gpu::EventWaitParameters;
using vrank::gpu::FillRequest;
using vrank::gpu::FreeParameters;
using vrank::gpu::Gpu;
using vrank::gpu::GraphNodeParameters;
using vrank::gpu::Graphs;
using vrank::gpu::HostCallParameters;
using vrank::gpu::KernelLaunch;
using vrank::gpu::Locate;
using vrank::gpu::PlainCopy;
using vrank::gpu::Read;
using vrank::gpu::ReadDependencies;
using vrank::gpu::Write;

namespace {

// Reads the parameters and adds the node. `after`: what the entry point got.
struct After {
  const cudaGraphNode_t* nodes;
  size_t count;
  const cudaGraphEdgeData* edges = nullptr;
};

template <typename ReadStep>
cudaError_t Add(cudaGraphNode_t* node, cudaGraph_t graph, const After& after,
                ReadStep read, const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(read(gpu, &parameters));
        return gpu.graphs().AddNode(
            graph, ReadDependencies(after.nodes, after.edges, after.count), &parameters,
            reinterpret_cast<void**>(node));
      },
      api);
}

template <typename ReadStep>
cudaError_t Set(cudaGraphNode_t node, ReadStep read,
                const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(read(gpu, &parameters));
        return gpu.graphs().SetNodeParameters(node, parameters);
      },
      api);
}

// The node's parameters, if they are of this type.
template <typename Parameters, typename Take>
cudaError_t Get(cudaGraphNode_t node, const void* answer, Take take,
                const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
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

// A step of Add and Set for parameters that need no reading.
auto Value(GraphNodeParameters value) {
  return [value](Gpu&, GraphNodeParameters* parameters) {
    *parameters = value;
    return Error::kSuccess;
  };
}
template <typename From>
auto Reading(const From* from) {
  return
      [from](Gpu&, GraphNodeParameters* parameters) { return Read(from, parameters); };
}
template <typename From>
auto ReadingWithGpu(const From* from) {
  return [from](Gpu& gpu, GraphNodeParameters* parameters) {
    return Read(gpu, from, parameters);
  };
}

}  // namespace

VRANK_CUDART cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* edges, size_t count,
                                          cudaGraphNodeParams* parameters) {
  const cudaError_t error =
      Add(node, graph, {dependencies, count, edges}, ReadingWithGpu(parameters));
  if (error == cudaSuccess && parameters->type == cudaGraphNodeTypeMemAlloc)
    return Get<AllocationParameters>(*node, node,
                                     [&](const AllocationParameters& from) {
                                       parameters->alloc.dptr = from.address;
                                     });
  if (error == cudaSuccess && parameters->type == cudaGraphNodeTypeGraph)
    return Get<ChildGraphParameters>(
        *node, node, [&](const ChildGraphParameters& from) {
          parameters->graph.graph = static_cast<cudaGraph_t>(from.graph);
        });
  return error;
}

VRANK_CUDART cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node,
                                                cudaGraphNodeParams* parameters) {
  return Set(node, ReadingWithGpu(parameters));
}

// --- Kernels
// -----------------------------------------------------------------------------

VRANK_CUDART cudaError_t cudaGraphAddKernelNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    size_t count, const cudaKernelNodeParams* parameters) {
  return Add(node, graph, {dependencies, count}, ReadingWithGpu(parameters));
}

VRANK_CUDART cudaError_t
cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* parameters) {
  return Get<KernelLaunch>(node, parameters,
                           [&](const KernelLaunch& from) { Write(from, parameters); });
}

VRANK_CUDART cudaError_t cudaGraphKernelNodeSetParams(
    cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  return Set(node, ReadingWithGpu(parameters));
}

VRANK_CUDART cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to,
                                                           cudaGraphNode_t from) {
  return Call([&](Gpu& gpu) { return gpu.graphs().CopyKernelAttributes(to, from); });
}

VRANK_CUDART cudaError_t cudaGraphKernelNodeGetAttribute(
    cudaGraphNode_t node, cudaLaunchAttributeID id, cudaLaunchAttributeValue* value) {
  static_assert(sizeof(cudaLaunchAttributeValue) == Graphs::kAttributeBytes);
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().GetKernelAttribute(node, id, value); });
}

VRANK_CUDART cudaError_t
cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                const cudaLaunchAttributeValue* value) {
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().SetKernelAttribute(node, id, value); });
}

// --- Copies and memsets
// ------------------------------------------------------------------

VRANK_CUDART cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node,
                                                cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                size_t count,
                                                const cudaMemcpy3DParms* parameters) {
  return Add(node, graph, {dependencies, count}, Reading(parameters));
}

VRANK_CUDART cudaError_t cudaGraphAddMemcpyNode1D(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    size_t count, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Add(node, graph, {dependencies, count},
             Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphAddMemcpyNodeToSymbol(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    size_t count, const void* symbol, const void* from, size_t bytes, size_t offset,
    cudaMemcpyKind kind) {
  void* to = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &to);
  return error != cudaSuccess ? error
                              : Add(node, graph, {dependencies, count},
                                    Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphAddMemcpyNodeFromSymbol(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    size_t count, void* to, const void* symbol, size_t bytes, size_t offset,
    cudaMemcpyKind kind) {
  void* from = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &from);
  return error != cudaSuccess ? error
                              : Add(node, graph, {dependencies, count},
                                    Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemcpy3DParms* parameters) {
  return Get<CopyRequest>(node, parameters,
                          [&](const CopyRequest& from) { Write(from, parameters); });
}

VRANK_CUDART cudaError_t cudaGraphMemcpyNodeSetParams(
    cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
  return Set(node, Reading(parameters));
}

VRANK_CUDART cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to,
                                                        const void* from, size_t bytes,
                                                        cudaMemcpyKind kind) {
  return Set(node, Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(
    cudaGraphNode_t node, const void* symbol, const void* from, size_t bytes,
    size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &to);
  return error != cudaSuccess ? error
                              : Set(node, Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(
    cudaGraphNode_t node, void* to, const void* symbol, size_t bytes, size_t offset,
    cudaMemcpyKind kind) {
  void* from = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &from);
  return error != cudaSuccess ? error
                              : Set(node, Value(PlainCopy(to, from, bytes, kind)));
}

VRANK_CUDART cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node,
                                                cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies,
                                                size_t count,
                                                const cudaMemsetParams* parameters) {
  return Add(node, graph, {dependencies, count}, Reading(parameters));
}

VRANK_CUDART cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node,
                                                      cudaMemsetParams* parameters) {
  return Get<FillRequest>(node, parameters,
                          [&](const FillRequest& from) { Write(from, parameters); });
}

VRANK_CUDART cudaError_t
cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return Set(node, Reading(parameters));
}

// --- Host functions, events, empty nodes, child graphs
// -----------------------------------

VRANK_CUDART cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* dependencies,
                                              size_t count,
                                              const cudaHostNodeParams* parameters) {
  return Add(node, graph, {dependencies, count}, Reading(parameters));
}

VRANK_CUDART cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node,
                                                    cudaHostNodeParams* parameters) {
  return Get<HostCallParameters>(node, parameters, [&](const HostCallParameters& from) {
    *parameters = {from.function, from.argument};
  });
}

VRANK_CUDART cudaError_t
cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return Set(node, Reading(parameters));
}

VRANK_CUDART cudaError_t cudaGraphAddEventRecordNode(
    cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    size_t count, cudaEvent_t event) {
  return Add(node, graph, {dependencies, count}, Value(EventRecordParameters{event}));
}

VRANK_CUDART cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node,
                                                          cudaEvent_t* event) {
  return Get<EventRecordParameters>(node, event,
                                    [&](const EventRecordParameters& from) {
                                      *event = static_cast<cudaEvent_t>(from.event);
                                    });
}

VRANK_CUDART cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node,
                                                          cudaEvent_t event) {
  return Set(node, Value(EventRecordParameters{event}));
}

VRANK_CUDART cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* node,
                                                   cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   size_t count, cudaEvent_t event) {
  return Add(node, graph, {dependencies, count}, Value(EventWaitParameters{event}));
}

VRANK_CUDART cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node,
                                                        cudaEvent_t* event) {
  return Get<EventWaitParameters>(node, event, [&](const EventWaitParameters& from) {
    *event = static_cast<cudaEvent_t>(from.event);
  });
}

VRANK_CUDART cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node,
                                                        cudaEvent_t event) {
  return Set(node, Value(EventWaitParameters{event}));
}

VRANK_CUDART cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* dependencies,
                                               size_t count) {
  return Add(node, graph, {dependencies, count}, Value(EmptyParameters{}));
}

VRANK_CUDART cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node,
                                                    cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    size_t count, cudaGraph_t child) {
  return Add(node, graph, {dependencies, count}, Value(ChildGraphParameters{child}));
}

VRANK_CUDART cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node,
                                                         cudaGraph_t* graph) {
  return Get<ChildGraphParameters>(node, graph, [&](const ChildGraphParameters& from) {
    *graph = static_cast<cudaGraph_t>(from.graph);
  });
}

// --- Memory
// ------------------------------------------------------------------------------

VRANK_CUDART cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node,
                                                  cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  size_t count,
                                                  cudaMemAllocNodeParams* parameters) {
  const cudaError_t error =
      Add(node, graph, {dependencies, count}, Reading(parameters));
  if (error != cudaSuccess)
    return error;
  return Get<AllocationParameters>(*node, node, [&](const AllocationParameters& from) {
    parameters->dptr = from.address;
  });
}

VRANK_CUDART cudaError_t cudaGraphMemAllocNodeGetParams(
    cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
  return Get<AllocationParameters>(
      node, parameters, [&](const AllocationParameters& from) {
        *parameters = {};
        parameters->poolProps.allocType = cudaMemAllocationTypePinned;
        parameters->poolProps.location = {cudaMemLocationTypeDevice, from.device};
        parameters->bytesize = from.bytes;
        parameters->dptr = from.address;
      });
}

VRANK_CUDART cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node,
                                                 cudaGraph_t graph,
                                                 const cudaGraphNode_t* dependencies,
                                                 size_t count, void* address) {
  return Add(node, graph, {dependencies, count}, Value(FreeParameters{address}));
}

VRANK_CUDART cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node,
                                                       void* address) {
  return Get<FreeParameters>(node, address, [&](const FreeParameters& from) {
    *static_cast<void**>(address) = from.address;
  });
}
