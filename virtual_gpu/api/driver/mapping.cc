// libcuda, chapter "Virtual memory management": one device's memory.
//
// Handles that cross processes are in ipc.cc; host memory and multicast objects are
// refused.

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/core/device_memory.h"

using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::MemoryAccess;
using vrank::gpu::ProcessGpu;

namespace {

bool IsOnDevice(const CUmemAllocationProp* properties) {
  return properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

}  // namespace

VRANK_CUDA CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                                  const CUmemAllocationProp* properties,
                                                  CUmemAllocationGranularity_flags) {
  return Call([&](ProcessGpu&) {
    if (granularity == nullptr || properties == nullptr)
      return Error::kInvalidValue;
    if (!IsOnDevice(properties))
      return Error::kNotSupported;
    *granularity = vrank::gpu::DeviceMemory::kBlock;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                const CUmemAllocationProp* properties,
                                unsigned long long flags) {
  return Call([&](ProcessGpu& gpu) {
    if (handle == nullptr || properties == nullptr || flags != 0)
      return Error::kInvalidValue;
    if (!IsOnDevice(properties))
      return Error::kNotSupported;
    uint64_t made = 0;
    VRANK_RETURN_IF_FAILED(
        gpu.virtual_memory().Create(properties->location.id, bytes, &made));
    *handle = made;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return Call([&](ProcessGpu& gpu) { return gpu.virtual_memory().Release(handle); });
}

VRANK_CUDA CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return Call([&](ProcessGpu& gpu) {
    int device = 0;
    uint64_t bytes = 0;
    if (properties == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.virtual_memory().Find(handle, &device, &bytes));
    *properties = {};
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location = {};
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = device;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes,
                                        size_t alignment, CUdeviceptr wanted,
                                        unsigned long long flags) {
  return Call([&](ProcessGpu& gpu) {
    uint64_t made = 0;
    if (address == nullptr || flags != 0)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(
        gpu.virtual_memory().Reserve(bytes, alignment, wanted, &made));
    *address = made;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return Call([&](ProcessGpu& gpu) {
    return gpu.virtual_memory().FreeAddresses(address, bytes);
  });
}

VRANK_CUDA CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle,
                             unsigned long long flags) {
  return Call([&](ProcessGpu& gpu) {
    if (offset != 0 || flags != 0)
      return Error::kInvalidValue;  // as the documentation asks of callers
    return gpu.virtual_memory().Map(address, bytes, handle);
  });
}

VRANK_CUDA CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return Call(
      [&](ProcessGpu& gpu) { return gpu.virtual_memory().Unmap(address, bytes); });
}

VRANK_CUDA CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                                void* address) {
  return Call([&](ProcessGpu& gpu) {
    uint64_t found = 0;
    if (handle == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(
        gpu.virtual_memory().Retain(reinterpret_cast<uint64_t>(address), &found));
    *handle = found;
    return Error::kSuccess;
  });
}

// Every device of a process may use all of its memory: what is set is only told again.
VRANK_CUDA CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
                                   const CUmemAccessDesc* rights, size_t count) {
  return Call([&](ProcessGpu& gpu) {
    if (rights == nullptr || count == 0)
      return Error::kInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (rights[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return Error::kNotSupported;
      VRANK_RETURN_IF_FAILED(
          gpu.virtual_memory().SetAccess(address, bytes, rights[i].location.id,
                                         static_cast<MemoryAccess>(rights[i].flags)));
    }
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemGetAccess(unsigned long long* flags,
                                   const CUmemLocation* location, CUdeviceptr address) {
  return Call([&](ProcessGpu& gpu) {
    MemoryAccess access{};
    if (flags == nullptr || location == nullptr)
      return Error::kInvalidValue;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
      return Error::kNotSupported;
    VRANK_RETURN_IF_FAILED(
        gpu.virtual_memory().GetAccess(address, location->id, &access));
    *flags = static_cast<unsigned long long>(access);
    return Error::kSuccess;
  });
}
