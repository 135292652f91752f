// cudart, chapters "Memory management" and "Event management": handles that cross
// processes.

#include <bit>

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::SharedHandle;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(SharedHandle) &&
              sizeof(cudaIpcEventHandle_t) == sizeof(SharedHandle));

VRANK_CUDART cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle,
                                             void* address) {
  return Call([&](Gpu& gpu) {
    SharedHandle shared;
    if (handle == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.ExportMemory(address, &shared));
    *handle = std::bit_cast<cudaIpcMemHandle_t>(shared);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle,
                                              unsigned flags) {
  return Call([&](Gpu& gpu) {
    return flags == cudaIpcMemLazyEnablePeerAccess
               ? gpu.ImportMemory(std::bit_cast<SharedHandle>(handle), address)
               : Error::kInvalidValue;
  });
}

VRANK_CUDART cudaError_t cudaIpcCloseMemHandle(void* address) {
  return Call([&](Gpu& gpu) { return gpu.CloseImported(address); });
}

VRANK_CUDART cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                               cudaEvent_t event) {
  return Call([&](Gpu& gpu) {
    SharedHandle shared;
    if (handle == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(gpu.ExportEvent(event, &shared));
    *handle = std::bit_cast<cudaIpcEventHandle_t>(shared);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                                cudaIpcEventHandle_t handle) {
  return Call([&](Gpu& gpu) {
    return gpu.ImportEvent(std::bit_cast<SharedHandle>(handle),
                           reinterpret_cast<void**>(event));
  });
}
