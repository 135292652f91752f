// cudart, chapter "Stream ordered memory allocator".

#include <cstring>

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::Leave;
using vrank::gpu::MemoryAccess;
using vrank::gpu::PerThread;
using vrank::gpu::PoolAttribute;

namespace {

void** Handle(cudaMemPool_t* pool) {
  return reinterpret_cast<void**>(pool);
}

// The reuse policies are ints, everything else is 64 bits wide.
bool IsSwitch(cudaMemPoolAttr attribute) {
  return attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

}  // namespace

VRANK_CUDART cudaError_t cudaMallocAsync(void** address, size_t bytes,
                                         cudaStream_t stream) {
  return Call(
      [&](Gpu& gpu) { return gpu.AllocateAsync(bytes, nullptr, stream, address); });
}
VRANK_CUDART cudaError_t cudaMallocAsync_ptsz(void** address, size_t bytes,
                                              cudaStream_t stream) {
  return Alias([&] { return cudaMallocAsync(address, bytes, PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes,
                                                 cudaMemPool_t pool,
                                                 cudaStream_t stream) {
  if (pool == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call(
      [&](Gpu& gpu) { return gpu.AllocateAsync(bytes, pool, stream, address); });
}
VRANK_CUDART cudaError_t cudaMallocFromPoolAsync_ptsz(void** address, size_t bytes,
                                                      cudaMemPool_t pool,
                                                      cudaStream_t stream) {
  return Alias(
      [&] { return cudaMallocFromPoolAsync(address, bytes, pool, PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return Call([&](Gpu& gpu) { return gpu.FreeAsync(address, stream); });
}
VRANK_CUDART cudaError_t cudaFreeAsync_ptsz(void* address, cudaStream_t stream) {
  return Alias([&] { return cudaFreeAsync(address, PerThread(stream)); });
}

VRANK_CUDART cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) { return gpu.DefaultPool(device, Handle(pool)); });
}

VRANK_CUDART cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) { return gpu.CurrentPool(device, Handle(pool)); });
}

VRANK_CUDART cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return Call([&](Gpu& gpu) { return gpu.SetCurrentPool(device, pool); });
}

// Pools of device memory that no other process opens.
VRANK_CUDART cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                           const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr ||
      properties->allocType != cudaMemAllocationTypePinned)
    return Leave(cudaErrorInvalidValue);
  if (properties->location.type != cudaMemLocationTypeDevice ||
      properties->handleTypes != cudaMemHandleTypeNone)
    return Leave(cudaErrorNotSupported);
  return Call([&](Gpu& gpu) {
    return gpu.CreatePool(properties->location.id, properties->maxSize, Handle(pool));
  });
}

VRANK_CUDART cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return Call([&](Gpu& gpu) { return gpu.DestroyPool(pool); });
}

VRANK_CUDART cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return Call([&](Gpu& gpu) { return gpu.TrimPool(pool, keep); });
}

VRANK_CUDART cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                              const cudaMemAccessDesc* descriptions,
                                              size_t count) {
  if (descriptions == nullptr && count > 0)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    for (size_t i = 0; i < count; ++i) {
      if (descriptions[i].location.type != cudaMemLocationTypeDevice)
        return Error::kInvalidValue;
      VRANK_RETURN_IF_FAILED(
          gpu.SetPoolAccess(pool, descriptions[i].location.id,
                            static_cast<MemoryAccess>(descriptions[i].flags)));
    }
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags,
                                              cudaMemPool_t pool,
                                              cudaMemLocation* location) {
  if (flags == nullptr || location == nullptr ||
      location->type != cudaMemLocationTypeDevice)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    MemoryAccess access{};
    VRANK_RETURN_IF_FAILED(gpu.GetPoolAccess(pool, location->id, &access));
    *flags = static_cast<cudaMemAccessFlags>(access);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                                 cudaMemPoolAttr attribute,
                                                 void* value) {
  if (value == nullptr)
    return Leave(cudaErrorInvalidValue);
  uint64_t number = 0;
  if (IsSwitch(attribute)) {
    int flag = 0;
    std::memcpy(&flag, value, sizeof flag);
    number = flag != 0 ? 1 : 0;
  } else {
    std::memcpy(&number, value, sizeof number);
  }
  return Call([&](Gpu& gpu) {
    return gpu.SetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), number);
  });
}

VRANK_CUDART cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                                 cudaMemPoolAttr attribute,
                                                 void* value) {
  if (value == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Call([&](Gpu& gpu) {
    uint64_t number = 0;
    VRANK_RETURN_IF_FAILED(
        gpu.GetPoolAttribute(pool, static_cast<PoolAttribute>(attribute), &number));
    const int flag = static_cast<int>(number);
    if (IsSwitch(attribute))
      std::memcpy(value, &flag, sizeof flag);
    else
      std::memcpy(value, &number, sizeof number);
    return Error::kSuccess;
  });
}
