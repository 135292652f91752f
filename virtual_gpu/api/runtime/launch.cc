// cudart, chapter "Execution control": launches.

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/registry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::KernelCode;
using vrank::gpu::KernelLaunch;
using vrank::gpu::Leave;
using vrank::gpu::PerThread;
using vrank::gpu::Registry;

namespace {

// What `kernel<<<grid, block, shared, stream>>>` leaves for the stub that it calls.
struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
// Launches nest where an argument's constructor launches; nobody needs more levels.
constexpr int kMaxNesting = 16;
thread_local CallConfiguration configurations[kMaxNesting];
thread_local int configured = 0;

void Assign(uint32_t* to, const dim3& from) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
}

cudaError_t Launch(const void* function, const dim3& grid, const dim3& block,
                   void** arguments, size_t shared_bytes, cudaStream_t stream,
                   const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        KernelLaunch launch;
        launch.kernel = Registry::Get().Find(gpu, function);
        Assign(launch.grid, grid);
        Assign(launch.block, block);
        launch.shared_bytes = shared_bytes;
        launch.stream = stream;
        launch.arguments = arguments;
        return gpu.LaunchKernel(launch);
      },
      api);
}

// Attributes that change where or how densely blocks run are accepted and do not change
// the modelled time. Programmatic serialisation lets a kernel begin before its
// predecessor ends; modelled as plain stream order. Those that record events of their
// own are refused.
bool IsModelled(const cudaLaunchAttribute& attribute) {
  switch (attribute.id) {
    case cudaLaunchAttributeProgrammaticEvent:
    case cudaLaunchAttributeLaunchCompletionEvent:
    case cudaLaunchAttributeDeviceUpdatableKernelNode:
      return false;
    default:
      return true;
  }
}

}  // namespace

extern "C" VRANK_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                             size_t shared_bytes,
                                                             CUstream_st* stream) {
  if (configured == kMaxNesting)
    return 1;
  configurations[configured++] = {grid, block, shared_bytes, stream};
  return 0;
}

VRANK_CUDART cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                    size_t* shared_bytes,
                                                    void* stream) {
  if (configured == 0)
    return Leave(cudaErrorMissingConfiguration);
  const CallConfiguration& top = configurations[--configured];
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

VRANK_CUDART cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                          void** arguments, size_t shared_bytes,
                                          cudaStream_t stream) {
  return Launch(function, grid, block, arguments, shared_bytes, stream);
}
VRANK_CUDART cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid,
                                               dim3 block, void** arguments,
                                               size_t shared_bytes,
                                               cudaStream_t stream) {
  return Launch(function, grid, block, arguments, shared_bytes, PerThread(stream));
}

// Cooperative launches hold their blocks resident; the time is that of a launch.
VRANK_CUDART cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid,
                                                     dim3 block, void** arguments,
                                                     size_t shared_bytes,
                                                     cudaStream_t stream) {
  return Launch(function, grid, block, arguments, shared_bytes, stream);
}
VRANK_CUDART cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* function,
                                                          dim3 grid, dim3 block,
                                                          void** arguments,
                                                          size_t shared_bytes,
                                                          cudaStream_t stream) {
  return Launch(function, grid, block, arguments, shared_bytes, PerThread(stream));
}

VRANK_CUDART cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return Call([&](Gpu& gpu) {
    KernelCode* code = Registry::Get().Find(gpu, function);
    *kernel = reinterpret_cast<cudaKernel_t>(code);
    return code == nullptr ? Error::kInvalidDeviceFunction : Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return Alias([&] { return __cudaGetKernel(kernel, function); });
}

VRANK_CUDART cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function,
                                             const void* symbol) {
  return Alias([&] {
    return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(function), symbol);
  });
}

VRANK_CUDART cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                            void** arguments, size_t shared_bytes,
                                            cudaStream_t stream) {
  return Launch(kernel, grid, block, arguments, shared_bytes, stream,
                "cudaLaunchKernel");
}
VRANK_CUDART cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid,
                                                 dim3 block, void** arguments,
                                                 size_t shared_bytes,
                                                 cudaStream_t stream) {
  return Launch(kernel, grid, block, arguments, shared_bytes, PerThread(stream),
                "cudaLaunchKernel_ptsz");
}

VRANK_CUDART cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration,
                                             const void* function, void** arguments) {
  if (configuration == nullptr ||
      (configuration->numAttrs > 0 && configuration->attrs == nullptr))
    return Leave(cudaErrorInvalidValue);
  for (unsigned i = 0; i < configuration->numAttrs; ++i)
    if (!IsModelled(configuration->attrs[i]))
      return Leave(cudaErrorNotSupported);
  return Launch(function, configuration->gridDim, configuration->blockDim, arguments,
                configuration->dynamicSmemBytes, configuration->stream);
}
VRANK_CUDART cudaError_t cudaLaunchKernelExC_ptsz(
    const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
  if (configuration == nullptr)
    return Leave(cudaErrorInvalidValue);
  cudaLaunchConfig_t per_thread = *configuration;
  per_thread.stream = PerThread(configuration->stream);
  return Alias([&] { return cudaLaunchKernelExC(&per_thread, function, arguments); });
}
