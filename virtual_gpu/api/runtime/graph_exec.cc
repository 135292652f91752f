// cudart, chapter "Graph management": executable graphs.

#include "virtual_gpu/api/runtime/copy_request.h"
#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/graph_parameters.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::ChildGraphParameters;
using vrank::gpu::Error;
using vrank::gpu::EventRecordParameters;
using vrank::gpu::EventWaitParameters;
using vrank::gpu::Gpu;
using vrank::gpu::GraphNodeParameters;
using vrank::gpu::GraphUpdate;
using vrank::gpu::Instantiation;
using vrank::gpu::kUploadAfterInstantiation;
using vrank::gpu::Leave;
using vrank::gpu::Locate;
using vrank::gpu::PerThread;
using vrank::gpu::PlainCopy;
using vrank::gpu::Read;

namespace {

cudaError_t SetCopy(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                    const void* from, size_t bytes, cudaMemcpyKind kind,
                    const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        return gpu.graphs().SetExecParameters(exec, node,
                                              PlainCopy(to, from, bytes, kind));
      },
      api);
}

// cudaGraphLaunch_v10000_params, of CUPTI's generated_cuda_runtime_api_meta.h.
struct LaunchParameters {
  cudaGraphExec_t exec;
  cudaStream_t stream;
};

template <typename ReadStep>
cudaError_t Set(cudaGraphExec_t exec, cudaGraphNode_t node, ReadStep read,
                const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(read(gpu, &parameters));
        return gpu.graphs().SetExecParameters(exec, node, parameters);
      },
      api);
}

template <typename Parameters>
cudaError_t SetValue(cudaGraphExec_t exec, cudaGraphNode_t node, Parameters value,
                     const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().SetExecParameters(exec, node, value); }, api);
}

}  // namespace

VRANK_CUDART cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec,
                                                       cudaGraph_t graph,
                                                       unsigned long long flags) {
  // "Only supported by cudaGraphInstantiateWithParams", which names a stream.
  if ((flags & cudaGraphInstantiateFlagUpload) != 0)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    Instantiation how{.flags = flags};
    return gpu.graphs().Instantiate(graph, &how, reinterpret_cast<void**>(exec));
  });
}

VRANK_CUDART cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                              unsigned long long flags) {
  return Alias([&] { return cudaGraphInstantiateWithFlags(exec, graph, flags); });
}

VRANK_CUDART cudaError_t cudaGraphInstantiateWithParams(
    cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
  if (parameters == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    Instantiation how{.flags = parameters->flags};
    const Error error =
        gpu.graphs().Instantiate(graph, &how, reinterpret_cast<void**>(exec));
    parameters->errNode_out = static_cast<cudaGraphNode_t>(how.error_node);
    parameters->result_out = static_cast<cudaGraphInstantiateResult>(how.result);
    if (error != Error::kSuccess || (how.flags & kUploadAfterInstantiation) == 0)
      return error;
    return gpu.graphs().Upload(*exec, parameters->uploadStream);
  });
}
VRANK_CUDART cudaError_t cudaGraphInstantiateWithParams_ptsz(
    cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
  if (parameters != nullptr)
    parameters->uploadStream = PerThread(parameters->uploadStream);
  return Alias([&] { return cudaGraphInstantiateWithParams(exec, graph, parameters); });
}

VRANK_CUDART cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return Call([&](Gpu& gpu) { return gpu.graphs().DestroyExec(exec); });
}

VRANK_CUDART cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec,
                                               unsigned long long* flags) {
  return Call([&](Gpu& gpu) {
    uint64_t value = 0;
    VRANK_RETURN_IF_FAILED(
        gpu.graphs().GetExecFlags(exec, flags == nullptr ? nullptr : &value));
    *flags = value;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const LaunchParameters told{exec, stream};
  return Call([&](Gpu& gpu) { return gpu.graphs().Launch(exec, stream); },
              "cudaGraphLaunch", &told);
}
VRANK_CUDART cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec,
                                              cudaStream_t stream) {
  const LaunchParameters told{exec, stream};
  return Alias([&] { return cudaGraphLaunch(exec, PerThread(stream)); },
               "cudaGraphLaunch_ptsz", &told);
}

VRANK_CUDART cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.graphs().Upload(exec, stream); });
}
VRANK_CUDART cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec,
                                              cudaStream_t stream) {
  return Alias([&] { return cudaGraphUpload(exec, PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                             cudaGraphExecUpdateResultInfo* info) {
  if (info == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    GraphUpdate update;
    const Error error = gpu.graphs().Update(exec, graph, &update);
    info->result = static_cast<cudaGraphExecUpdateResult>(update.result);
    info->errorNode = static_cast<cudaGraphNode_t>(update.error_node);
    info->errorFromNode = static_cast<cudaGraphNode_t>(update.error_from);
    return error;
  });
}

VRANK_CUDART cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec,
                                                 cudaGraphNode_t node,
                                                 unsigned enabled) {
  return Call(
      [&](Gpu& gpu) { return gpu.graphs().SetNodeEnabled(exec, node, enabled != 0); });
}

VRANK_CUDART cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec,
                                                 cudaGraphNode_t node,
                                                 unsigned* enabled) {
  return Call([&](Gpu& gpu) {
    bool value = false;
    VRANK_RETURN_IF_FAILED(
        gpu.graphs().GetNodeEnabled(exec, node, enabled == nullptr ? nullptr : &value));
    *enabled = value ? 1 : 0;
    return Error::kSuccess;
  });
}

// --- What nodes of an executable graph do
// ------------------------------------------------

VRANK_CUDART cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec,
                                                    cudaGraphNode_t node,
                                                    cudaGraphNodeParams* parameters) {
  return Set(exec, node, [&](Gpu& gpu, GraphNodeParameters* to) {
    return Read(gpu, parameters, to);
  });
}

VRANK_CUDART cudaError_t
cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                 const cudaKernelNodeParams* parameters) {
  return Set(exec, node, [&](Gpu& gpu, GraphNodeParameters* to) {
    return Read(gpu, parameters, to);
  });
}

VRANK_CUDART cudaError_t cudaGraphExecMemcpyNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemcpy3DParms* parameters) {
  return Set(exec, node,
             [&](Gpu&, GraphNodeParameters* to) { return Read(parameters, to); });
}

VRANK_CUDART cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node,
                                                            void* to, const void* from,
                                                            size_t bytes,
                                                            cudaMemcpyKind kind) {
  return SetCopy(exec, node, to, from, bytes, kind);
}

VRANK_CUDART cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol, const void* from,
    size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* to = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &to);
  return error != cudaSuccess ? error : SetCopy(exec, node, to, from, bytes, kind);
}

VRANK_CUDART cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* symbol,
    size_t bytes, size_t offset, cudaMemcpyKind kind) {
  void* from = nullptr;
  const cudaError_t error = Locate(symbol, bytes, offset, &from);
  return error != cudaSuccess ? error : SetCopy(exec, node, to, from, bytes, kind);
}

VRANK_CUDART cudaError_t cudaGraphExecMemsetNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaMemsetParams* parameters) {
  return Set(exec, node,
             [&](Gpu&, GraphNodeParameters* to) { return Read(parameters, to); });
}

VRANK_CUDART cudaError_t cudaGraphExecHostNodeSetParams(
    cudaGraphExec_t exec, cudaGraphNode_t node, const cudaHostNodeParams* parameters) {
  return Set(exec, node,
             [&](Gpu&, GraphNodeParameters* to) { return Read(parameters, to); });
}

VRANK_CUDART cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec,
                                                              cudaGraphNode_t node,
                                                              cudaGraph_t child) {
  return SetValue(exec, node, ChildGraphParameters{child});
}

VRANK_CUDART cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec,
                                                              cudaGraphNode_t node,
                                                              cudaEvent_t event) {
  return SetValue(exec, node, EventRecordParameters{event});
}

VRANK_CUDART cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node,
                                                            cudaEvent_t event) {
  return SetValue(exec, node, EventWaitParameters{event});
}
