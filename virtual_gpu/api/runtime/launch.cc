// cudart, chapter "Execution control": launches.

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/launch_configuration.h"
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

cudaError_t Launch(const void* function, const cudaLaunchConfig_t& configuration,
                   void** arguments, const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) {
        KernelLaunch launch;
        VRANK_RETURN_IF_FAILED(vrank::gpu::ReadConfiguration(
            configuration, Registry::Get().Find(gpu, function), &launch));
        launch.arguments = arguments;
        return gpu.LaunchKernel(launch);
      },
      api);
}

cudaError_t Launch(const void* function, const dim3& grid, const dim3& block,
                   void** arguments, size_t shared_bytes, cudaStream_t stream,
                   const char* api = __builtin_FUNCTION()) {
  return Launch(function, {grid, block, shared_bytes, stream, nullptr, 0}, arguments,
                api);
}

// The time is that of any launch.
cudaError_t LaunchCooperative(const void* function, const dim3& grid, const dim3& block,
                              void** arguments, size_t shared_bytes,
                              cudaStream_t stream,
                              const char* api = __builtin_FUNCTION()) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  return Launch(function, {grid, block, shared_bytes, stream, &attribute, 1}, arguments,
                api);
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

VRANK_CUDART cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid,
                                                     dim3 block, void** arguments,
                                                     size_t shared_bytes,
                                                     cudaStream_t stream) {
  return LaunchCooperative(function, grid, block, arguments, shared_bytes, stream);
}
VRANK_CUDART cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* function,
                                                          dim3 grid, dim3 block,
                                                          void** arguments,
                                                          size_t shared_bytes,
                                                          cudaStream_t stream) {
  return LaunchCooperative(function, grid, block, arguments, shared_bytes,
                           PerThread(stream));
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
  if (configuration == nullptr)
    return Leave(cudaErrorInvalidValue);
  return Launch(function, *configuration, arguments);
}
VRANK_CUDART cudaError_t cudaLaunchKernelExC_ptsz(
    const cudaLaunchConfig_t* configuration, const void* function, void** arguments) {
  if (configuration == nullptr)
    return Leave(cudaErrorInvalidValue);
  cudaLaunchConfig_t per_thread = *configuration;
  per_thread.stream = PerThread(configuration->stream);
  return Alias([&] { return cudaLaunchKernelExC(&per_thread, function, arguments); });
}
