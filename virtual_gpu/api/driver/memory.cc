// libcuda, chapters "Memory management", "Stream ordered memory allocator", "Unified
// addressing".

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::CallInContext;
using vrank::gpu::CopyDirection;
using vrank::gpu::DeviceMemoryInfo;
using vrank::gpu::Error;
using vrank::gpu::MemoryKind;
using vrank::gpu::PointerInfo;
using vrank::gpu::ProcessGpu;

namespace {

void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

constexpr bool kBlocking = false;
constexpr bool kAsynchronous = true;

CUresult Copy(void* to, const void* from, size_t bytes, CopyDirection direction,
              CUstream stream, bool asynchronous,
              const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        return gpu.Copy({.to = to,
                         .from = from,
                         .row_bytes = bytes,
                         .direction = direction,
                         .stream = stream,
                         .asynchronous = asynchronous});
      },
      api);
}

CUresult Fill(CUdeviceptr to, uint32_t value, uint32_t element_bytes, size_t elements,
              CUstream stream, bool asynchronous,
              const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        return gpu.Fill({.to = Pointer(to),
                         .value = value,
                         .element_bytes = element_bytes,
                         .elements = elements,
                         .stream = stream,
                         .asynchronous = asynchronous});
      },
      api);
}

}  // namespace

// --- Allocation
// --------------------------------------------------------------------------

VRANK_CUDA CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  return CallInContext([&](ProcessGpu& gpu) {
    return bytes == 0 ? Error::kInvalidValue
                      : gpu.Allocate(bytes, reinterpret_cast<void**>(address));
  });
}

VRANK_CUDA CUresult cuMemFree_v2(CUdeviceptr address) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.Free(Pointer(address)); });
}

VRANK_CUDA CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return CallInContext([&](ProcessGpu& gpu) {
    DeviceMemoryInfo info;
    if (free_bytes == nullptr || total_bytes == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.GetDeviceMemoryInfo(&info));
    *free_bytes = info.free_bytes;
    *total_bytes = info.total_bytes;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                            CUdeviceptr address) {
  return CallInContext([&](ProcessGpu& gpu) {
    PointerInfo info;
    VRANK_RETURN_IF_FAILED(gpu.GetPointerInfo(Pointer(address), &info));
    if (info.kind == MemoryKind::kUnknown)
      return Error::kNotFound;
    if (base != nullptr)
      *base = info.base;
    if (bytes != nullptr)
      *bytes = info.bytes;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.AllocateHost(bytes, flags, address); });
}

VRANK_CUDA CUresult cuMemAllocHost_v2(void** address, size_t bytes) {
  return Alias([&] { return cuMemHostAlloc(address, bytes, 0); });
}

VRANK_CUDA CUresult cuMemFreeHost(void* address) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.FreeHost(address); });
}

VRANK_CUDA CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.RegisterHost(address, bytes, flags); });
}

VRANK_CUDA CUresult cuMemHostUnregister(void* address) {
  return CallInContext([&](ProcessGpu& gpu) { return gpu.UnregisterHost(address); });
}

VRANK_CUDA CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host,
                                                 unsigned flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    PointerInfo info;
    if (device == nullptr || flags != 0)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.GetPointerInfo(host, &info));
    if (info.kind != MemoryKind::kHost)
      return Error::kInvalidValue;
    *device = reinterpret_cast<CUdeviceptr>(host);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes,
                                    CUstream stream) {
  return CallInContext([&](ProcessGpu& gpu) {
    return bytes == 0 ? Error::kInvalidValue
                      : gpu.AllocateAsync(bytes, nullptr, stream,
                                          reinterpret_cast<void**>(address));
  });
}

VRANK_CUDA CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return CallInContext(
      [&](ProcessGpu& gpu) { return gpu.FreeAsync(Pointer(address), stream); });
}

// --- What pointers are
// -------------------------------------------------------------------

VRANK_CUDA CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                          CUdeviceptr address) {
  return Call([&](ProcessGpu& gpu) {
    PointerInfo info;
    if (data == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.GetPointerInfo(Pointer(address), &info));
    if (info.kind == MemoryKind::kUnknown)
      return Error::kInvalidValue;
    switch (attribute) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(data) =
            reinterpret_cast<CUcontext>(static_cast<uintptr_t>(info.device + 1));
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data) = info.kind == MemoryKind::kDevice
                                            ? CU_MEMORYTYPE_DEVICE
                                            : CU_MEMORYTYPE_HOST;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *static_cast<void**>(data) = info.device_pointer;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (info.kind != MemoryKind::kHost)
          return Error::kInvalidValue;
        *static_cast<void**>(data) = info.host_pointer;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<unsigned long long*>(data) = info.buffer_id;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(data) = 0;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data) = info.device;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(data) = info.base;
        return Error::kSuccess;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(data) = info.bytes;
        return Error::kSuccess;
      default:
        return Error::kNotSupported;
    }
  });
}

// --- Copies
// ------------------------------------------------------------------------------

VRANK_CUDA CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyDirection::kFromPointers, nullptr,
              kBlocking);
}

VRANK_CUDA CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                  CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyDirection::kFromPointers, stream,
              kAsynchronous);
}

VRANK_CUDA CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return Copy(Pointer(to), from, bytes, CopyDirection::kHostToDevice, nullptr,
              kBlocking);
}

VRANK_CUDA CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                         CUstream stream) {
  return Copy(Pointer(to), from, bytes, CopyDirection::kHostToDevice, stream,
              kAsynchronous);
}

VRANK_CUDA CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return Copy(to, Pointer(from), bytes, CopyDirection::kDeviceToHost, nullptr,
              kBlocking);
}

VRANK_CUDA CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return Copy(to, Pointer(from), bytes, CopyDirection::kDeviceToHost, stream,
              kAsynchronous);
}

VRANK_CUDA CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyDirection::kDeviceToDevice,
              nullptr, kBlocking);
}

VRANK_CUDA CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return Copy(Pointer(to), Pointer(from), bytes, CopyDirection::kDeviceToDevice, stream,
              kAsynchronous);
}

// --- Memsets
// -----------------------------------------------------------------------------

VRANK_CUDA CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(to, value, 1, count, nullptr, kBlocking);
}
VRANK_CUDA CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                    CUstream stream) {
  return Fill(to, value, 1, count, stream, kAsynchronous);
}

VRANK_CUDA CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill(to, value, 2, count, nullptr, kBlocking);
}
VRANK_CUDA CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                     CUstream stream) {
  return Fill(to, value, 2, count, stream, kAsynchronous);
}

VRANK_CUDA CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return Fill(to, value, 4, count, nullptr, kBlocking);
}
VRANK_CUDA CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                     CUstream stream) {
  return Fill(to, value, 4, count, stream, kAsynchronous);
}
