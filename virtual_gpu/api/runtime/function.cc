// cudart, chapters "Execution control" and "Occupancy": what kernels are like.

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/launch_configuration.h"
#include "virtual_gpu/api/runtime/registry.h"
#include "virtual_gpu/core/function_attributes.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::FunctionAttribute;
using vrank::gpu::Gpu;
using vrank::gpu::GpuProperties;
using vrank::gpu::KernelCode;
using vrank::gpu::KernelLaunch;
using vrank::gpu::Leave;
using vrank::gpu::Registry;

namespace {

// Runs `step(properties, kernel)`.
template <typename Step>
cudaError_t WithKernel(const void* function, Step step,
                       const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) -> Error {
        VRANK_RETURN_IF_FAILED(gpu.Ready());
        KernelCode* kernel = Registry::Get().Find(gpu, function);
        return kernel == nullptr ? Error::kInvalidDeviceFunction
                                 : step(gpu.channel()->settings().gpu, *kernel);
      },
      api);
}

}  // namespace

VRANK_CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                               const void* function) {
  if (attributes == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    // "The requested device function does not exist or is not compiled for the proper
    // device architecture."
    if (!kernel.resources.runnable)
      return Error::kInvalidDeviceFunction;
    auto get = [&](FunctionAttribute attribute) {
      int value = 0;
      const Error error = GetFunctionAttribute(gpu, kernel, attribute, &value);
      return error == Error::kSuccess ? value : 0;
    };
    auto bytes = [&](FunctionAttribute attribute) {
      return static_cast<size_t>(get(attribute));
    };
    using enum FunctionAttribute;
    *attributes = {};
    attributes->sharedSizeBytes = bytes(kSharedBytes);
    attributes->constSizeBytes = bytes(kConstantBytes);
    attributes->localSizeBytes = bytes(kLocalBytes);
    attributes->maxThreadsPerBlock = get(kMaxThreadsPerBlock);
    attributes->numRegs = get(kRegisters);
    attributes->ptxVersion = get(kPtxVersion);
    attributes->binaryVersion = get(kBinaryVersion);
    attributes->cacheModeCA = get(kCacheModeCa);
    attributes->maxDynamicSharedSizeBytes = get(kMaxDynamicSharedBytes);
    attributes->preferredShmemCarveout = get(kPreferredSharedCarveout);
    attributes->clusterDimMustBeSet = get(kClusterSizeMustBeSet);
    attributes->requiredClusterWidth = get(kRequiredClusterWidth);
    attributes->requiredClusterHeight = get(kRequiredClusterHeight);
    attributes->requiredClusterDepth = get(kRequiredClusterDepth);
    attributes->clusterSchedulingPolicyPreference = get(kClusterSchedulingPolicy);
    attributes->nonPortableClusterSizeAllowed = get(kNonPortableClusterSizeAllowed);
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaFuncSetAttribute(const void* function,
                                              cudaFuncAttribute attribute, int value) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    return SetFunctionAttribute(gpu, &kernel, static_cast<FunctionAttribute>(attribute),
                                value);
  });
}

// A hint, and since Volta one that hardware need not follow.
VRANK_CUDART cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return WithKernel(function,
                    [](const GpuProperties&, KernelCode&) { return Error::kSuccess; });
}

VRANK_CUDART cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (name == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties&, KernelCode& kernel) {
    *name = kernel.name.c_str();
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaFuncGetParamInfo(const void* function, size_t index,
                                              size_t* offset, size_t* size) {
  return WithKernel(function, [&](const GpuProperties&, KernelCode& kernel) {
    if (offset == nullptr || index >= kernel.signature.count)
      return Error::kInvalidValue;
    if (index >= kernel.signature.known)
      return Error::kNotSupported;
    *offset = kernel.signature.parameters[index].offset;
    if (size != nullptr)
      *size = kernel.signature.parameters[index].size;
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_size, size_t dynamic_shared,
    unsigned) {
  if (blocks == nullptr || block_size <= 0)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    *blocks = static_cast<int>(
        ActiveBlocks(gpu, kernel, static_cast<uint64_t>(block_size), dynamic_shared));
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, const void* function, int block_size, size_t dynamic_shared) {
  return Alias([&] {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, function, block_size, dynamic_shared, cudaOccupancyDefault);
  });
}

VRANK_CUDART cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes,
                                                                   const void* function,
                                                                   int blocks,
                                                                   int block_size) {
  if (bytes == nullptr || blocks <= 0 || block_size <= 0)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    return AvailableDynamicShared(gpu, kernel, static_cast<uint64_t>(blocks),
                                  static_cast<uint64_t>(block_size), bytes);
  });
}

VRANK_CUDART cudaError_t cudaOccupancyMaxPotentialClusterSize(
    int* size, const void* function, const cudaLaunchConfig_t* configuration) {
  if (size == nullptr || configuration == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    KernelLaunch launch;
    VRANK_RETURN_IF_FAILED(ReadConfiguration(*configuration, &kernel, &launch));
    *size = static_cast<int>(PotentialCluster(gpu, launch));
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaOccupancyMaxActiveClusters(
    int* clusters, const void* function, const cudaLaunchConfig_t* configuration) {
  if (clusters == nullptr || configuration == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    KernelLaunch launch;
    VRANK_RETURN_IF_FAILED(ReadConfiguration(*configuration, &kernel, &launch));
    return ActiveClusters(gpu, launch, clusters);
  });
}
