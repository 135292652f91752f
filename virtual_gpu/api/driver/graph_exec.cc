// libcuda, chapter "Graph management": executable graphs, user objects, memory.

#include "virtual_gpu/api/driver/graph_parameters.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::CallInContext;
using vrank::gpu::ChildGraphParameters;
using vrank::gpu::Error;
using vrank::gpu::EventRecordParameters;
using vrank::gpu::EventWaitParameters;
using vrank::gpu::GraphMemoryAttribute;
using vrank::gpu::GraphNodeParameters;
using vrank::gpu::GraphUpdate;
using vrank::gpu::Instantiation;
using vrank::gpu::kUploadAfterInstantiation;
using vrank::gpu::PerThread;
using vrank::gpu::ProcessGpu;
using vrank::gpu::Read;

namespace {

// cuGraphLaunch_params, of CUPTI's generated_cuda_meta.h.
struct LaunchParameters {
  CUgraphExec exec;
  CUstream stream;
};

template <typename From>
CUresult Set(CUgraphExec exec, CUgraphNode node, const From* from,
             const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        GraphNodeParameters parameters;
        VRANK_RETURN_IF_FAILED(Read(from, &parameters));
        return gpu.graphs().SetExecParameters(exec, node, parameters);
      },
      api);
}
CUresult SetValue(CUgraphExec exec, CUgraphNode node,
                  const GraphNodeParameters& parameters,
                  const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        return gpu.graphs().SetExecParameters(exec, node, parameters);
      },
      api);
}

}  // namespace

// --- Making, launching, changing
// ---------------------------------------------------------

#undef cuGraphInstantiate
#undef cuGraphExecUpdate

VRANK_CUDA CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                unsigned long long flags) {
  // "Only supported by cuGraphInstantiateWithParams", which names a stream.
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    Instantiation how{.flags = flags};
    return gpu.graphs().Instantiate(graph, &how, reinterpret_cast<void**>(exec));
  });
}
// The forms before CUDA 11.4: an error node, and a log that stays empty.
VRANK_CUDA CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph,
                                          CUgraphNode* error_node, char* log,
                                          size_t log_bytes) {
  return CallInContext([&](ProcessGpu& gpu) {
    Instantiation how;
    const Error error =
        gpu.graphs().Instantiate(graph, &how, reinterpret_cast<void**>(exec));
    if (error_node != nullptr)
      *error_node = static_cast<CUgraphNode>(how.error_node);
    if (log != nullptr && log_bytes > 0)
      *log = '\0';
    return error;
  });
}
VRANK_CUDA CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph,
                                       CUgraphNode* error_node, char* log,
                                       size_t log_bytes) {
  return Alias(
      [&] { return cuGraphInstantiate_v2(exec, graph, error_node, log, log_bytes); });
}

VRANK_CUDA CUresult cuGraphInstantiateWithParams(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    Instantiation how{.flags = parameters->flags};
    const Error error =
        gpu.graphs().Instantiate(graph, &how, reinterpret_cast<void**>(exec));
    parameters->hErrNode_out = static_cast<CUgraphNode>(how.error_node);
    parameters->result_out = static_cast<CUgraphInstantiateResult>(how.result);
    if (error != Error::kSuccess || (how.flags & kUploadAfterInstantiation) == 0)
      return error;
    return gpu.graphs().Upload(*exec, parameters->hUploadStream);
  });
}
VRANK_CUDA CUresult cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters != nullptr)
    parameters->hUploadStream = PerThread(parameters->hUploadStream);
  return Alias([&] { return cuGraphInstantiateWithParams(exec, graph, parameters); });
}

VRANK_CUDA CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.graphs().DestroyExec(exec); });
}

VRANK_CUDA CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().GetExecFlags(exec, flags); });
}

VRANK_CUDA CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  const LaunchParameters told{exec, stream};
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().Launch(exec, stream); },
      "cuGraphLaunch", &told);
}
VRANK_CUDA CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  const LaunchParameters told{exec, stream};
  return Alias([&] { return cuGraphLaunch(exec, PerThread(stream)); },
               "cuGraphLaunch_ptsz", &told);
}

VRANK_CUDA CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.graphs().Upload(exec, stream); });
}
VRANK_CUDA CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return Alias([&] { return cuGraphUpload(exec, PerThread(stream)); });
}

VRANK_CUDA CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                         CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  return CallInContext([&](ProcessGpu& gpu) {
    GraphUpdate update;
    const Error error = gpu.graphs().Update(exec, graph, &update);
    info->result = static_cast<CUgraphExecUpdateResult>(update.result);
    info->errorNode = static_cast<CUgraphNode>(update.error_node);
    info->errorFromNode = static_cast<CUgraphNode>(update.error_from);
    return error;
  });
}
VRANK_CUDA CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph,
                                      CUgraphNode* error_node,
                                      CUgraphExecUpdateResult* result) {
  return Alias([&] {
    CUgraphExecUpdateResultInfo info{};
    const CUresult error = cuGraphExecUpdate_v2(exec, graph, &info);
    if (error_node != nullptr)
      *error_node = info.errorNode;
    if (result != nullptr)
      *result = info.result;
    return error;
  });
}

VRANK_CUDA CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node,
                                          unsigned enabled) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.graphs().SetNodeEnabled(exec, node, enabled != 0);
  });
}
VRANK_CUDA CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node,
                                          unsigned* enabled) {
  return CallInContext([&](ProcessGpu& gpu) {
    bool value = false;
    VRANK_RETURN_IF_FAILED(
        gpu.graphs().GetNodeEnabled(exec, node, enabled == nullptr ? nullptr : &value));
    *enabled = value ? 1 : 0;
    return Error::kSuccess;
  });
}

// --- What nodes of an executable graph do
// ------------------------------------------------

#undef cuGraphExecKernelNodeSetParams

VRANK_CUDA CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             CUgraphNodeParams* parameters) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult cuGraphExecKernelNodeSetParams_v2(
    CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult cuGraphExecKernelNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_MEMCPY3D* parameters,
                                                   CUcontext) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult
cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                               const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult cuGraphExecHostNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* parameters) {
  return Set(exec, node, parameters);
}
VRANK_CUDA CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec,
                                                       CUgraphNode node,
                                                       CUgraph child) {
  return SetValue(exec, node, ChildGraphParameters{child});
}
VRANK_CUDA CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec,
                                                       CUgraphNode node,
                                                       CUevent event) {
  return SetValue(exec, node, EventRecordParameters{event});
}
VRANK_CUDA CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                     CUevent event) {
  return SetValue(exec, node, EventWaitParameters{event});
}

// --- User objects
// ------------------------------------------------------------------------

VRANK_CUDA CUresult cuUserObjectCreate(CUuserObject* object, void* data,
                                       CUhostFn destroy, unsigned references,
                                       unsigned flags) {
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  return Call([&](ProcessGpu& gpu) {
    return gpu.graphs().CreateUserObject(data, destroy, references,
                                         reinterpret_cast<void**>(object));
  });
}
VRANK_CUDA CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return Call(
      [&](ProcessGpu& gpu) { return gpu.graphs().RetainUserObject(object, count); });
}
VRANK_CUDA CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return Call(
      [&](ProcessGpu& gpu) { return gpu.graphs().ReleaseUserObject(object, count); });
}
VRANK_CUDA CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
                                            unsigned count, unsigned flags) {
  if (flags > CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  return Call([&](ProcessGpu& gpu) {
    return gpu.graphs().RetainForGraph(graph, object, count,
                                       flags == CU_GRAPH_USER_OBJECT_MOVE);
  });
}
VRANK_CUDA CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
                                             unsigned count) {
  return Call([&](ProcessGpu& gpu) {
    return gpu.graphs().ReleaseFromGraph(graph, object, count);
  });
}

// --- Memory of graphs
// --------------------------------------------------------------------

VRANK_CUDA CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return Call([&](ProcessGpu& gpu) { return gpu.graphs().TrimMemory(device); });
}
VRANK_CUDA CUresult cuDeviceGetGraphMemAttribute(CUdevice device,
                                                 CUgraphMem_attribute attribute,
                                                 void* value) {
  return Call([&](ProcessGpu& gpu) {
    return gpu.graphs().GetMemoryAttribute(device,
                                           static_cast<GraphMemoryAttribute>(attribute),
                                           static_cast<uint64_t*>(value));
  });
}
VRANK_CUDA CUresult cuDeviceSetGraphMemAttribute(CUdevice device,
                                                 CUgraphMem_attribute attribute,
                                                 void* value) {
  return Call([&](ProcessGpu& gpu) {
    if (value == nullptr || *static_cast<uint64_t*>(value) != 0)
      return Error::kInvalidValue;
    return gpu.graphs().ResetMemoryAttribute(
        device, static_cast<GraphMemoryAttribute>(attribute));
  });
}
