// The way to the GPU, and the last error.

#include "virtual_gpu/api/runtime/entry.h"

#include "base/guest/raw_log.h"
#include "base/guest/virtual_gpu.h"

namespace vrank::gpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Gpu* FindGpu() {
  const VirtualGpuTable* const table = FindVirtualGpuTable();  // outside of the guard
  static Gpu* const gpu = [table]() -> Gpu* {
    if (table != nullptr && table->runtime->abi() == Gpu::kAbi)
      return table->runtime;
    RawLog("libcudart",
           "libcuda.so.1 is not the one of this vrank; start the program with `vrank "
           "emulate ... -- COMMAND`, and keep other CUDA libraries off LD_PRELOAD and "
           "LD_LIBRARY_PATH");
    return nullptr;
  }();
  return gpu;
}

ActivityTap* FindTap() {
  Gpu* const gpu = FindGpu();  // outside of the guard
  static ActivityTap* const tap = gpu == nullptr ? nullptr : FindVirtualGpuTable()->tap;
  return tap;
}

cudaError_t Leave(cudaError_t error) {
  // CUDA C++ Programming Guide, "Error Checking": "cudaErrorNotReady that may be
  // returned by functions such as cudaStreamQuery() and cudaEventQuery() is not
  // considered an error and is therefore not reported by cudaPeekAtLastError() or
  // cudaGetLastError()."
  if (error != cudaSuccess && error != cudaErrorNotReady)
    last_error = error;
  return error;
}

cudaError_t LastError(bool reset) {
  const cudaError_t error = last_error;
  if (reset)
    last_error = cudaSuccess;
  return error;
}

}  // namespace vrank::gpu
