#include "virtual_gpu/api/runtime/graph_parameters.h"

#include <algorithm>
#include <bit>

#include "virtual_gpu/api/runtime/copy_request.h"
#include "virtual_gpu/api/runtime/registry.h"

namespace vrank::gpu {
namespace {

// `extra` is a list of name, value, ..., end, as cuLaunchKernel takes it.
Error ReadExtra(void** extra, KernelLaunch* launch) {
  // CU_LAUNCH_PARAM_END, ..._BUFFER_POINTER, ..._BUFFER_SIZE of cuda.h.
  void* const end = nullptr;
  void* const pointer = reinterpret_cast<void*>(uintptr_t{1});
  void* const size = reinterpret_cast<void*>(uintptr_t{2});
  for (; *extra != end; extra += 2) {
    if (*extra == pointer)
      launch->packed = extra[1];
    else if (*extra == size)
      launch->packed_bytes = *static_cast<size_t*>(extra[1]);
    else
      return Error::kInvalidValue;
  }
  return Error::kSuccess;
}

template <typename Kernel>
Error ReadKernel(Gpu& gpu, const Kernel& from, GraphNodeParameters* to) {
  KernelLaunch launch;
  launch.kernel = Registry::Get().Find(gpu, from.func);
  launch.grid[0] = from.gridDim.x;
  launch.grid[1] = from.gridDim.y;
  launch.grid[2] = from.gridDim.z;
  launch.block[0] = from.blockDim.x;
  launch.block[1] = from.blockDim.y;
  launch.block[2] = from.blockDim.z;
  launch.shared_bytes = from.sharedMemBytes;
  launch.arguments = from.kernelParams;
  if (from.kernelParams == nullptr && from.extra != nullptr)
    VRANK_RETURN_IF_FAILED(ReadExtra(from.extra, &launch));
  *to = launch;
  return launch.kernel == nullptr ? Error::kInvalidDeviceFunction : Error::kSuccess;
}

template <typename Fill>
Error ReadFill(const Fill& from, GraphNodeParameters* to) {
  if (from.elementSize != 1 && from.elementSize != 2 && from.elementSize != 4)
    return Error::kInvalidValue;
  *to = FillRequest{.to = from.dst,
                    .value = from.value,
                    .element_bytes = from.elementSize,
                    .elements = from.width,
                    .rows = from.height,
                    .pitch = from.pitch,
                    .asynchronous = true};
  return Error::kSuccess;
}

template <typename Allocation>
Error ReadAllocation(const Allocation& from, GraphNodeParameters* to) {
  if (from.poolProps.allocType != cudaMemAllocationTypePinned ||
      from.poolProps.handleTypes != cudaMemHandleTypeNone)
    return Error::kInvalidValue;
  if (from.poolProps.location.type != cudaMemLocationTypeDevice)
    return Error::kNotSupported;
  *to = AllocationParameters{.device = from.poolProps.location.id,
                             .bytes = from.bytesize};
  return Error::kSuccess;
}

}  // namespace

Error Read(Gpu& gpu, const cudaKernelNodeParams* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadKernel(gpu, *from, to);
}

Error Read(const cudaMemcpy3DParms* from, GraphNodeParameters* to) {
  CopyRequest request;
  VRANK_RETURN_IF_FAILED(ReadCopy(from, &request));
  request.asynchronous = true;
  *to = request;
  return Error::kSuccess;
}

Error Read(const cudaMemsetParams* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadFill(*from, to);
}

Error Read(const cudaHostNodeParams* from, GraphNodeParameters* to) {
  if (from == nullptr)
    return Error::kInvalidValue;
  *to = HostCallParameters{from->fn, from->userData};
  return Error::kSuccess;
}

Error Read(const cudaMemAllocNodeParams* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadAllocation(*from, to);
}

Error Read(Gpu& gpu, const cudaGraphNodeParams* from, GraphNodeParameters* to) {
  if (from == nullptr)
    return Error::kInvalidValue;
  switch (from->type) {
    case cudaGraphNodeTypeKernel:
      return ReadKernel(gpu, from->kernel, to);
    case cudaGraphNodeTypeMemcpy:
      return Read(&from->memcpy.copyParams, to);
    case cudaGraphNodeTypeMemset:
      return ReadFill(from->memset, to);
    case cudaGraphNodeTypeHost:
      *to = HostCallParameters{from->host.fn, from->host.userData};
      return Error::kSuccess;
    case cudaGraphNodeTypeGraph:
      // A child graph that is moved into its parent keeps its handle; not modelled.
      if (from->graph.ownership != cudaGraphChildGraphOwnershipClone)
        return Error::kNotSupported;
      *to = ChildGraphParameters{from->graph.graph};
      return Error::kSuccess;
    case cudaGraphNodeTypeEmpty:
      *to = EmptyParameters{};
      return Error::kSuccess;
    case cudaGraphNodeTypeWaitEvent:
      *to = EventWaitParameters{from->eventWait.event};
      return Error::kSuccess;
    case cudaGraphNodeTypeEventRecord:
      *to = EventRecordParameters{from->eventRecord.event};
      return Error::kSuccess;
    case cudaGraphNodeTypeMemAlloc:
      return ReadAllocation(from->alloc, to);
    case cudaGraphNodeTypeMemFree:
      *to = FreeParameters{from->free.dptr};
      return Error::kSuccess;
    default:
      return Error::kNotSupported;
  }
}

GraphNodeParameters PlainCopy(void* to, const void* from, size_t bytes,
                              cudaMemcpyKind kind) {
  CopyRequest request{.to = to, .from = from, .row_bytes = bytes};
  request.direction = static_cast<CopyDirection>(kind);
  request.asynchronous = true;
  return request;
}

void Write(const KernelLaunch& from, cudaKernelNodeParams* to) {
  *to = {};
  to->func = from.kernel;
  to->gridDim = dim3(from.grid[0], from.grid[1], from.grid[2]);
  to->blockDim = dim3(from.block[0], from.block[1], from.block[2]);
  to->sharedMemBytes = static_cast<unsigned>(from.shared_bytes);
  to->kernelParams = from.arguments;
}

void Write(const CopyRequest& from, cudaMemcpy3DParms* to) {
  auto pitched = [&](const void* address, uint64_t pitch, uint64_t plane) {
    const uint64_t row = pitch == 0 ? from.row_bytes : pitch;
    return cudaPitchedPtr{const_cast<void*>(address), row, from.row_bytes,
                          plane == 0 ? from.rows : plane / row};
  };
  *to = {};
  to->srcPtr = pitched(from.from, from.from_pitch, from.from_plane);
  to->dstPtr = pitched(from.to, from.to_pitch, from.to_plane);
  to->extent = {from.row_bytes, from.rows, from.depth};
  to->kind = static_cast<cudaMemcpyKind>(from.direction);
}

void Write(const FillRequest& from, cudaMemsetParams* to) {
  *to = {};
  to->dst = from.to;
  to->value = from.value;
  to->elementSize = from.element_bytes;
  to->width = from.elements;
  to->height = from.rows;
  to->pitch = from.pitch;
}

std::vector<GraphDependency> ReadDependencies(const cudaGraphNode_t* nodes,
                                              const cudaGraphEdgeData* edges,
                                              size_t count) {
  static_assert(sizeof(GraphEdgeData) == sizeof(cudaGraphEdgeData));
  std::vector<GraphDependency> dependencies(nodes == nullptr ? 0 : count);
  for (size_t i = 0; i < dependencies.size(); ++i) {
    dependencies[i].node = nodes[i];
    if (edges != nullptr)
      dependencies[i].data = std::bit_cast<GraphEdgeData>(edges[i]);
  }
  return dependencies;
}

void WriteList(const std::vector<void*>& from, cudaGraphNode_t* to, size_t* count) {
  if (to == nullptr) {
    *count = from.size();
    return;
  }
  const size_t written = std::min(*count, from.size());
  for (size_t i = 0; i < *count; ++i)
    to[i] = i < written ? static_cast<cudaGraphNode_t>(from[i]) : nullptr;
  *count = written;
}

}  // namespace vrank::gpu
