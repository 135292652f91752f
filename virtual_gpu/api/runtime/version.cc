// cudart, chapters "Version management", "Driver entry point access", "Profiler
// control".

#include <cuda_profiler_api.h>
#include <dlfcn.h>

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::Leave;

namespace {

// cuGetProcAddress_v2 of libcuda.so.1, which is loaded before any call gets here.
using GetProcAddress = int (*)(const char* symbol, void** function, int version,
                               uint64_t flags, int* status);

cudaError_t FindEntryPoint(const char* symbol, void** function, unsigned version,
                           unsigned long long flags,
                           cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr)
    return Leave(cudaErrorInvalidValue);
  *function = nullptr;
  if (vrank::gpu::FindGpu() == nullptr)
    return Leave(cudaErrorNoDevice);
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto find =
      library == nullptr
          ? nullptr
          : reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr)
    return Leave(cudaErrorNotSupported);
  int found = 0;
  const int error = find(symbol, function, static_cast<int>(version), flags, &found);
  if (status != nullptr)
    *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  // A symbol that does not exist is told through `status` alone, where there is one.
  if (found != cudaDriverEntryPointSuccess && status != nullptr)
    return cudaSuccess;
  return Leave(static_cast<cudaError_t>(error));
}

}  // namespace

VRANK_CUDART cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr)
    return Leave(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// The driver that the stand-in for libcuda claims to be.
VRANK_CUDART cudaError_t cudaDriverGetVersion(int* version) {
  return vrank::gpu::Alias([&] { return cudaRuntimeGetVersion(version); });
}

VRANK_CUDART cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return FindEntryPoint(symbol, function, version, flags, status);
}
VRANK_CUDART cudaError_t cudaGetDriverEntryPointByVersion_ptsz(
    const char* symbol, void** function, unsigned version, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  if (flags == cudaEnableDefault)
    flags = cudaEnablePerThreadDefaultStream;
  return FindEntryPoint(symbol, function, version, flags, status);
}

VRANK_CUDART cudaError_t
cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status) {
  return FindEntryPoint(symbol, function, CUDART_VERSION, flags, status);
}
VRANK_CUDART cudaError_t cudaGetDriverEntryPoint_ptsz(
    const char* symbol, void** function, unsigned long long flags,
    cudaDriverEntryPointQueryResult* status) {
  return vrank::gpu::Alias([&] {
    return cudaGetDriverEntryPointByVersion_ptsz(symbol, function, CUDART_VERSION,
                                                 flags, status);
  });
}

// Ranges for a profiler that is attached; none is.
VRANK_CUDART cudaError_t cudaProfilerStart() {
  return cudaSuccess;
}
VRANK_CUDART cudaError_t cudaProfilerStop() {
  return cudaSuccess;
}
