// cudart, chapter "Memory management": allocation and what pointers are.

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::DeviceMemoryInfo;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::MemoryKind;
using vrank::gpu::PointerInfo;

namespace {

// Rows of a pitched allocation begin at multiples of the texture alignment.
constexpr size_t kPitchAlignment = 512;

constexpr unsigned kAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kRegisterFlags = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                    cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

// The page-locked block that `address` lies in.
Error FindLocked(Gpu& gpu, void* address, PointerInfo* info) {
  VRANK_RETURN_IF_FAILED(gpu.GetPointerInfo(address, info));
  return info->kind == MemoryKind::kHost ? Error::kSuccess : Error::kInvalidValue;
}

}  // namespace

VRANK_CUDART cudaError_t cudaMalloc(void** address, size_t bytes) {
  return Call([&](Gpu& gpu) { return gpu.Allocate(bytes, address); });
}

VRANK_CUDART cudaError_t cudaFree(void* address) {
  return Call([&](Gpu& gpu) { return gpu.Free(address); });
}

VRANK_CUDART cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width,
                                         size_t height) {
  if (address == nullptr || pitch == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  const size_t rounded =
      (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  const cudaError_t error = cudaMalloc(address, rounded * height);
  if (error == cudaSuccess)
    *pitch = rounded;
  return error;
}

VRANK_CUDART cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  if (pointer == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  pointer->xsize = extent.width;
  pointer->ysize = extent.height;
  return Alias([&] {
    return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width,
                           extent.height * extent.depth);
  });
}

VRANK_CUDART cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    DeviceMemoryInfo info;
    VRANK_RETURN_IF_FAILED(gpu.GetDeviceMemoryInfo(&info));
    *free_bytes = info.free_bytes;
    *total_bytes = info.total_bytes;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  if ((flags & ~kAllocFlags) != 0)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) { return gpu.AllocateHost(bytes, flags, address); });
}

VRANK_CUDART cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return Alias([&] { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); });
}

VRANK_CUDART cudaError_t cudaFreeHost(void* address) {
  return Call([&](Gpu& gpu) { return gpu.FreeHost(address); });
}

VRANK_CUDART cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned flags) {
  if ((flags & ~kRegisterFlags) != 0)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) { return gpu.RegisterHost(address, bytes, flags); });
}

VRANK_CUDART cudaError_t cudaHostUnregister(void* address) {
  return Call([&](Gpu& gpu) { return gpu.UnregisterHost(address); });
}

// With unified addressing the device sees page-locked memory at its host address.
VRANK_CUDART cudaError_t cudaHostGetDevicePointer(void** device, void* host,
                                                  unsigned flags) {
  if (device == nullptr || flags != 0)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    PointerInfo info;
    VRANK_RETURN_IF_FAILED(FindLocked(gpu, host, &info));
    *device = host;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  if (flags == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    PointerInfo info;
    VRANK_RETURN_IF_FAILED(FindLocked(gpu, host, &info));
    // All page-locked memory is mapped under unified addressing.
    *flags = info.host_flags | cudaHostAllocMapped;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                  const void* pointer) {
  if (attributes == nullptr)
    return vrank::gpu::Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    PointerInfo info;
    VRANK_RETURN_IF_FAILED(gpu.GetPointerInfo(pointer, &info));
    *attributes = {};
    attributes->type = info.kind == MemoryKind::kDevice ? cudaMemoryTypeDevice
                       : info.kind == MemoryKind::kHost ? cudaMemoryTypeHost
                                                        : cudaMemoryTypeUnregistered;
    attributes->device =
        info.kind == MemoryKind::kUnknown ? cudaInvalidDeviceId : info.device;
    attributes->devicePointer = info.device_pointer;
    attributes->hostPointer = info.kind == MemoryKind::kUnknown
                                  ? const_cast<void*>(pointer)
                                  : info.host_pointer;
    return Error::kSuccess;
  });
}
