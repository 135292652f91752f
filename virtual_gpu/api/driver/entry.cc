// The process's GPU, cuInit, and the doors: cuGetExportTable and cuGetProcAddress.

#include "virtual_gpu/api/driver/entry.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "base/guest/channel.h"
#include "base/guest/raw_log.h"
#include "base/guest/virtual_gpu.h"

namespace vrank::gpu {
namespace {

std::atomic<bool> initialized{false};

// Our own file, whatever name the program loaded it under.
void* OwnLibrary() {
  static void* const library = []() -> void* {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&Initialized), &info) == 0)
      return nullptr;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return library;
}

// The newest version of the function: cuda.h names them cuX, cuX_v2, cuX_v3, ...
void* Newest(const char* symbol, bool per_thread) {
  constexpr const char* kVersions[] = {"_v4", "_v3", "_v2", ""};
  constexpr const char* kPerThread[] = {"_ptsz", "_ptds"};
  void* library = OwnLibrary();
  char name[256];
  for (const char* version : kVersions) {
    for (const char* suffix : kPerThread) {
      snprintf(name, sizeof name, "%s%s%s", symbol, version, suffix);
      void* found = per_thread ? dlsym(library, name) : nullptr;
      if (found != nullptr)
        return found;
    }
    snprintf(name, sizeof name, "%s%s", symbol, version);
    if (void* found = dlsym(library, name))
      return found;
  }
  return nullptr;
}

}  // namespace

ProcessGpu& TheGpu() {
  static ProcessGpu* const gpu = new ProcessGpu(FindChannel());
  return *gpu;
}

CUresult Initialized() {
  return initialized.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                     : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace vrank::gpu

using vrank::gpu::Newest;
using vrank::gpu::TheGpu;

VRANK_CUDA CUresult cuInit(unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const vrank::gpu::Error ready = TheGpu().Ready();
  if (ready == vrank::gpu::Error::kSuccess)
    vrank::gpu::initialized.store(true, std::memory_order_release);
  return vrank::gpu::Result(ready);
}

VRANK_CUDA CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

// NVIDIA's own tables serve the CUDA runtime that nvcc links into programs by default;
// one of them holds a keyed check that only NVIDIA's driver answers. Who asks for any
// table but ours was linked that way.
VRANK_CUDA CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  static const vrank::VirtualGpuTable ours{
      .gpu = &TheGpu(), .runtime = static_cast<vrank::gpu::Gpu*>(&TheGpu())};
  if (table == nullptr || id == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  if (std::memcmp(id->bytes, vrank::kVirtualGpuTable, sizeof id->bytes) == 0) {
    *table = &ours;
    return CUDA_SUCCESS;
  }
  static std::atomic<bool> said;
  if (!said.exchange(true))
    vrank::RawLog("libcuda",
                  "the program (or a library of it) contains its own copy of the CUDA "
                  "runtime, which cannot run on a virtual GPU; link it with `nvcc "
                  "-cudart shared` (CMake: CUDA_RUNTIME_LIBRARY Shared)");
  return CUDA_ERROR_NOT_FOUND;
}

VRANK_CUDA CUresult cuGetProcAddress_v2(const char* symbol, void** function, int,
                                        cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *function =
      Newest(symbol, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  const bool found = *function != nullptr;
  if (status != nullptr)
    *status =
        found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
