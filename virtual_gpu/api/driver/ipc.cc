// libcuda, chapters "Memory management", "Event management" and "Virtual memory
// management": handles that cross processes.
//
// A descriptor that cuMemExportToShareableHandle makes is that of a file in memory,
// which holds the handle: it can be sent through a socket as a real one can.

#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "virtual_gpu/api/driver/entry.h"

using vrank::gpu::CallInContext;
using vrank::gpu::Error;
using vrank::gpu::ProcessGpu;
using vrank::gpu::SharedHandle;

static_assert(sizeof(CUipcMemHandle) == sizeof(SharedHandle) &&
              sizeof(CUipcEventHandle) == sizeof(SharedHandle) &&
              sizeof(CUmemFabricHandle) == sizeof(SharedHandle));

namespace {

// Memory that another process has exported; false where the descriptor is none's.
bool ReadFrom(int descriptor, SharedHandle* shared) {
  return pread(descriptor, shared, sizeof *shared, 0) ==
         static_cast<ssize_t>(sizeof *shared);
}

// -1 where the system gives no descriptor.
int WriteToNewFile(const SharedHandle& shared) {
  const int descriptor = memfd_create("vrank-memory", MFD_CLOEXEC);
  if (descriptor >= 0 && pwrite(descriptor, &shared, sizeof shared, 0) !=
                             static_cast<ssize_t>(sizeof shared)) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

VRANK_CUDA CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return CallInContext([&](ProcessGpu& gpu) {
    SharedHandle shared;
    if (handle == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(
        gpu.ExportMemory(reinterpret_cast<const void*>(address), &shared));
    *handle = std::bit_cast<CUipcMemHandle>(shared);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle,
                                          unsigned flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    return flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
               ? gpu.ImportMemory(std::bit_cast<SharedHandle>(handle),
                                  reinterpret_cast<void**>(address))
               : Error::kInvalidValue;
  });
}

#undef cuIpcOpenMemHandle
VRANK_CUDA CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                       unsigned flags) {
  return vrank::gpu::Alias(
      [&] { return cuIpcOpenMemHandle_v2(address, handle, flags); });
}

VRANK_CUDA CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.CloseImported(reinterpret_cast<void*>(address));
  });
}

VRANK_CUDA CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  return CallInContext([&](ProcessGpu& gpu) {
    SharedHandle shared;
    if (handle == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.ExportEvent(event, &shared));
    *handle = std::bit_cast<CUipcEventHandle>(shared);
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  return CallInContext([&](ProcessGpu& gpu) {
    return gpu.ImportEvent(std::bit_cast<SharedHandle>(handle),
                           reinterpret_cast<void**>(event));
  });
}

VRANK_CUDA CUresult cuMemExportToShareableHandle(void* target,
                                                 CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
  return CallInContext([&](ProcessGpu& gpu) {
    SharedHandle shared;
    if (target == nullptr || flags != 0)
      return Error::kInvalidValue;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
        type != CU_MEM_HANDLE_TYPE_FABRIC)
      return Error::kNotSupported;
    VRANK_RETURN_IF_FAILED(gpu.virtual_memory().Export(handle, &shared));
    if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
      *static_cast<CUmemFabricHandle*>(target) =
          std::bit_cast<CUmemFabricHandle>(shared);
      return Error::kSuccess;
    }
    const int descriptor = WriteToNewFile(shared);
    if (descriptor < 0)
      return Error::kOperatingSystem;
    *static_cast<int*>(target) = descriptor;
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                   void* source,
                                                   CUmemAllocationHandleType type) {
  return CallInContext([&](ProcessGpu& gpu) {
    SharedHandle shared;
    uint64_t made = 0;
    if (handle == nullptr)
      return Error::kInvalidValue;
    if (type == CU_MEM_HANDLE_TYPE_FABRIC && source != nullptr)
      shared =
          std::bit_cast<SharedHandle>(*static_cast<const CUmemFabricHandle*>(source));
    else if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return Error::kNotSupported;
    else if (!ReadFrom(static_cast<int>(reinterpret_cast<intptr_t>(source)), &shared))
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.virtual_memory().Import(shared, &made));
    *handle = made;
    return Error::kSuccess;
  });
}
