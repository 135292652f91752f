#include "virtual_gpu/api/driver/graph_parameters.h"

namespace vrank::gpu {
namespace {

void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

template <typename Kernel>
Error ReadKernel(const Kernel& from, CUfunction function, GraphNodeParameters* to) {
  KernelLaunch launch{.kernel = reinterpret_cast<KernelCode*>(function),
                      .grid = {from.gridDimX, from.gridDimY, from.gridDimZ},
                      .block = {from.blockDimX, from.blockDimY, from.blockDimZ},
                      .shared_bytes = from.sharedMemBytes,
                      .arguments = from.kernelParams};
  if (from.kernelParams == nullptr)
    VRANK_RETURN_IF_FAILED(ReadExtra(from.extra, &launch));
  *to = launch;
  return launch.kernel == nullptr ? Error::kInvalidValue : Error::kSuccess;
}

// A kernel is its function: both handles are the address of the KernelCode.
template <typename Kernel>
CUfunction FunctionOf(const Kernel& from) {
  return from.func != nullptr ? from.func : reinterpret_cast<CUfunction>(from.kern);
}

template <typename Fill>
Error ReadFill(const Fill& from, GraphNodeParameters* to) {
  if (from.elementSize != 1 && from.elementSize != 2 && from.elementSize != 4)
    return Error::kInvalidValue;
  *to = FillRequest{.to = Pointer(from.dst),
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
  if (from.poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      from.poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return Error::kInvalidValue;
  if (from.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return Error::kNotSupported;
  *to = AllocationParameters{.device = from.poolProps.location.id,
                             .bytes = from.bytesize};
  return Error::kSuccess;
}

template <typename Kernel>
void WriteKernel(const KernelLaunch& from, Kernel* to) {
  *to = {};
  to->func = reinterpret_cast<CUfunction>(from.kernel);
  to->gridDimX = from.grid[0];
  to->gridDimY = from.grid[1];
  to->gridDimZ = from.grid[2];
  to->blockDimX = from.block[0];
  to->blockDimY = from.block[1];
  to->blockDimZ = from.block[2];
  to->sharedMemBytes = static_cast<unsigned>(from.shared_bytes);
  to->kernelParams = from.arguments;
}

}  // namespace

Error ReadExtra(void** extra, KernelLaunch* launch) {
  if (extra == nullptr)
    return Error::kSuccess;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      launch->packed = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      launch->packed_bytes = *static_cast<size_t*>(extra[1]);
    else
      return Error::kInvalidValue;
  }
  return Error::kSuccess;
}

Error Read(const CUDA_KERNEL_NODE_PARAMS_v1* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadKernel(*from, from->func, to);
}
Error Read(const CUDA_KERNEL_NODE_PARAMS_v2* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue
                         : ReadKernel(*from, FunctionOf(*from), to);
}

Error Read(const CUDA_MEMCPY3D* from, GraphNodeParameters* to) {
  if (from == nullptr)
    return Error::kInvalidValue;
  if (from->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
      from->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return Error::kNotSupported;
  const auto* source = from->srcMemoryType == CU_MEMORYTYPE_HOST
                           ? static_cast<const char*>(from->srcHost)
                           : static_cast<const char*>(Pointer(from->srcDevice));
  auto* target = from->dstMemoryType == CU_MEMORYTYPE_HOST
                     ? static_cast<char*>(from->dstHost)
                     : static_cast<char*>(Pointer(from->dstDevice));
  const uint64_t from_plane = from->srcPitch * from->srcHeight;
  const uint64_t to_plane = from->dstPitch * from->dstHeight;
  CopyRequest request{.to = target + from->dstZ * to_plane +
                            from->dstY * from->dstPitch + from->dstXInBytes,
                      .from = source + from->srcZ * from_plane +
                              from->srcY * from->srcPitch + from->srcXInBytes,
                      .row_bytes = from->WidthInBytes,
                      .rows = from->Height,
                      .depth = from->Depth,
                      .to_pitch = from->dstPitch,
                      .from_pitch = from->srcPitch,
                      .to_plane = to_plane,
                      .from_plane = from_plane};
  request.asynchronous = true;
  *to = request;
  return Error::kSuccess;
}

Error Read(const CUDA_MEMSET_NODE_PARAMS* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadFill(*from, to);
}

Error Read(const CUDA_HOST_NODE_PARAMS* from, GraphNodeParameters* to) {
  if (from == nullptr)
    return Error::kInvalidValue;
  *to = HostCallParameters{from->fn, from->userData};
  return Error::kSuccess;
}

Error Read(const CUDA_MEM_ALLOC_NODE_PARAMS* from, GraphNodeParameters* to) {
  return from == nullptr ? Error::kInvalidValue : ReadAllocation(*from, to);
}

Error Read(const CUgraphNodeParams* from, GraphNodeParameters* to) {
  if (from == nullptr)
    return Error::kInvalidValue;
  switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return ReadKernel(from->kernel, FunctionOf(from->kernel), to);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return Read(&from->memcpy.copyParams, to);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return ReadFill(from->memset, to);
    case CU_GRAPH_NODE_TYPE_HOST:
      *to = HostCallParameters{from->host.fn, from->host.userData};
      return Error::kSuccess;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      // A child graph that is moved into its parent keeps its handle; not modelled.
      if (from->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
        return Error::kNotSupported;
      *to = ChildGraphParameters{from->graph.graph};
      return Error::kSuccess;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *to = EmptyParameters{};
      return Error::kSuccess;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      *to = EventWaitParameters{from->eventWait.event};
      return Error::kSuccess;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      *to = EventRecordParameters{from->eventRecord.event};
      return Error::kSuccess;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return ReadAllocation(from->alloc, to);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      *to = FreeParameters{Pointer(from->free.dptr)};
      return Error::kSuccess;
    default:
      return Error::kNotSupported;
  }
}

void Write(const KernelLaunch& from, CUDA_KERNEL_NODE_PARAMS_v1* to) {
  WriteKernel(from, to);
}
void Write(const KernelLaunch& from, CUDA_KERNEL_NODE_PARAMS_v2* to) {
  WriteKernel(from, to);
}

void Write(const CopyRequest& from, CUDA_MEMCPY3D* to) {
  auto rows = [&](uint64_t pitch, uint64_t plane) {
    return plane == 0 || pitch == 0 ? from.rows : plane / pitch;
  };
  auto pitch_of = [&](uint64_t pitch) { return pitch == 0 ? from.row_bytes : pitch; };
  *to = {};
  to->srcMemoryType = to->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  to->srcDevice = reinterpret_cast<CUdeviceptr>(from.from);
  to->dstDevice = reinterpret_cast<CUdeviceptr>(from.to);
  to->srcPitch = pitch_of(from.from_pitch);
  to->dstPitch = pitch_of(from.to_pitch);
  to->srcHeight = rows(from.from_pitch, from.from_plane);
  to->dstHeight = rows(from.to_pitch, from.to_plane);
  to->WidthInBytes = from.row_bytes;
  to->Height = from.rows;
  to->Depth = from.depth;
}

void Write(const FillRequest& from, CUDA_MEMSET_NODE_PARAMS* to) {
  *to = {};
  to->dst = reinterpret_cast<CUdeviceptr>(from.to);
  to->pitch = from.pitch;
  to->value = from.value;
  to->elementSize = from.element_bytes;
  to->width = from.elements;
  to->height = from.rows;
}

void Write(const HostCallParameters& from, CUDA_HOST_NODE_PARAMS* to) {
  *to = {from.function, from.argument};
}

void Write(const AllocationParameters& from, CUDA_MEM_ALLOC_NODE_PARAMS* to) {
  *to = {};
  to->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  to->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  to->poolProps.location.id = from.device;
  to->bytesize = from.bytes;
  to->dptr = reinterpret_cast<CUdeviceptr>(from.address);
}

}  // namespace vrank::gpu
