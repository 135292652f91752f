// libcuda, chapter "Driver entry point access": cuGetProcAddress.
//
// cuda.h gives a function that changed a new exported name (cuCtxCreate_v4) and leaves
// the program the old word (cuCtxCreate); the caller's CUDA version says which one it
// means.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "virtual_gpu/api/driver/entry.h"

namespace {

// Since which CUDA version the word means this name, for names that came with 11.4 or
// later (cudaTypedefs.h of CUDA 13.0: PFN_cuX_vVERSION). All others are older than any
// program that can ask.
struct Since {
  const char* name;
  int version;
};
constexpr Since kSince[] = {
    {"cuCtxCreate_v3", 11040},
    {"cuCtxCreate_v4", 12050},
    {"cuCtxGetDevice_v2", 13000},
    {"cuCtxSynchronize_v2", 13000},
    {"cuDeviceGetUuid_v2", 11040},
    {"cuEventElapsedTime_v2", 12080},
    {"cuGetProcAddress_v2", 12000},
    {"cuGraphAddDependencies_v2", 12030},
    {"cuGraphAddKernelNode_v2", 12000},
    {"cuGraphAddNode_v2", 12030},
    {"cuGraphExecKernelNodeSetParams_v2", 12000},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphGetEdges_v2", 12030},
    {"cuGraphKernelNodeGetParams_v2", 12000},
    {"cuGraphKernelNodeSetParams_v2", 12000},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphRemoveDependencies_v2", 12030},
    {"cuMemAdvise_v2", 12020},
    {"cuMemPrefetchAsync_v2", 12020},
    {"cuMemcpy3DBatchAsync_v2", 13000},
    {"cuMemcpyBatchAsync_v2", 13000},
    {"cuStreamBatchMemOp_v2", 11070},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamGetCtx_v2", 12050},
    {"cuStreamUpdateCaptureDependencies_v2", 12030},
    {"cuStreamWaitValue32_v2", 11070},
    {"cuStreamWaitValue64_v2", 11070},
    {"cuStreamWriteValue32_v2", 11070},
    {"cuStreamWriteValue64_v2", 11070},
};

bool IsKnownTo(const char* name, int version) {
  for (const Since& row : kSince)
    if (std::strcmp(row.name, name) == 0)
      return version >= row.version;
  return true;
}

// Our own file, whatever name the program loaded it under.
void* OwnLibrary() {
  static void* const library = []() -> void* {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&OwnLibrary), &info) == 0)
      return nullptr;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return library;
}

void* FindFunction(const char* symbol, int cuda_version, bool per_thread) {
  constexpr const char* kVersions[] = {"_v4", "_v3", "_v2", ""};
  constexpr const char* kPerThread[] = {"_ptsz", "_ptds"};
  void* library = OwnLibrary();
  char name[256];
  char variant[256];
  for (const char* version : kVersions) {
    snprintf(name, sizeof name, "%.200s%s", symbol, version);
    void* found = dlsym(library, name);
    if (found == nullptr || !IsKnownTo(name, cuda_version))
      continue;
    for (const char* suffix : kPerThread) {
      snprintf(variant, sizeof variant, "%.240s%s", name, suffix);
      void* other = per_thread ? dlsym(library, variant) : nullptr;
      if (other != nullptr)
        return other;
    }
    return found;
  }
  return nullptr;
}

}  // namespace

VRANK_CUDA CUresult cuGetProcAddress_v2(const char* symbol, void** function,
                                        int cuda_version, cuuint64_t flags,
                                        CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *function =
      FindFunction(symbol, cuda_version,
                   (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  const bool found = *function != nullptr;
  if (status != nullptr)
    *status =
        found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// The form before CUDA 12: no status.
#undef cuGetProcAddress
VRANK_CUDA CUresult cuGetProcAddress(const char* symbol, void** function,
                                     int cuda_version, cuuint64_t flags) {
  return vrank::gpu::Alias([&] {
    return cuGetProcAddress_v2(symbol, function, cuda_version, flags, nullptr);
  });
}
