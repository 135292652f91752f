// cudart, chapters "Execution control" and "Occupancy": what kernels are like.
//
// Of the machine code only the parameters are read, so registers and static shared
// memory are assumed (kernel_code.h); the answers are plausible and the same in every
// run.

#include <algorithm>

#include "virtual_gpu/api/runtime/entry.h"
#include "virtual_gpu/api/runtime/registry.h"

using vrank::gpu::Alias;
using vrank::gpu::Call;
using vrank::gpu::Error;
using vrank::gpu::Gpu;
using vrank::gpu::KernelCode;
using vrank::gpu::Leave;
using vrank::gpu::Registry;

namespace {

constexpr int kWarp = 32;

// Runs `step(gpu, kernel)`.
template <typename Step>
cudaError_t WithKernel(const void* function, Step step,
                       const char* api = __builtin_FUNCTION()) {
  return Call(
      [&](Gpu& gpu) -> Error {
        VRANK_RETURN_IF_FAILED(gpu.Ready());
        KernelCode* kernel = Registry::Get().Find(gpu, function);
        return kernel == nullptr ? Error::kInvalidDeviceFunction : step(gpu, *kernel);
      },
      api);
}

int DefaultDynamicShared(const vrank::protocol::GpuProperties& gpu) {
  return static_cast<int>(gpu.shared_per_block);
}

// CUDA C++ Best Practices Guide, "Calculating occupancy".
int ActiveBlocks(const vrank::protocol::GpuProperties& gpu, int block_size,
                 size_t dynamic_shared) {
  constexpr uint64_t kReservedShared = 1024;  // per block, since compute capability 8.0
  const uint64_t threads =
      static_cast<uint64_t>((block_size + kWarp - 1) / kWarp * kWarp);
  const uint64_t by_threads = gpu.threads_per_multiprocessor / threads;
  const uint64_t by_registers =
      gpu.registers_per_multiprocessor / (threads * vrank::gpu::kAssumedRegisters);
  const uint64_t by_shared =
      gpu.shared_per_multiprocessor / (dynamic_shared + kReservedShared);
  return static_cast<int>(std::min(
      {by_threads, by_registers, by_shared, uint64_t{gpu.blocks_per_multiprocessor}}));
}

}  // namespace

VRANK_CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                               const void* function) {
  if (attributes == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](Gpu& gpu, KernelCode& kernel) {
    const vrank::protocol::GpuProperties& properties = gpu.channel()->settings().gpu;
    const int version =
        static_cast<int>(properties.compute_major * 10 + properties.compute_minor);
    const int shared = kernel.max_dynamic_shared.load();
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = vrank::gpu::kAssumedRegisters;
    attributes->ptxVersion = attributes->binaryVersion = version;
    attributes->maxDynamicSharedSizeBytes =
        shared >= 0 ? shared : DefaultDynamicShared(properties);
    attributes->preferredShmemCarveout = kernel.shared_carveout.load();
    attributes->nonPortableClusterSizeAllowed = kernel.non_portable_cluster.load();
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaFuncSetAttribute(const void* function,
                                              cudaFuncAttribute attribute, int value) {
  return WithKernel(function, [&](Gpu& gpu, KernelCode& kernel) {
    const auto most =
        static_cast<int>(gpu.channel()->settings().gpu.shared_per_block_optin);
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > most)
          return Error::kInvalidValue;
        kernel.max_dynamic_shared = value;
        return Error::kSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100)
          return Error::kInvalidValue;
        kernel.shared_carveout = value;
        return Error::kSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        kernel.non_portable_cluster = value != 0;
        return Error::kSuccess;
      default:
        return Error::kNotSupported;
    }
  });
}

// A hint, and since Volta one that hardware need not follow.
VRANK_CUDART cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return WithKernel(function, [](Gpu&, KernelCode&) { return Error::kSuccess; });
}

VRANK_CUDART cudaError_t cudaFuncGetName(const char** name, const void* function) {
  if (name == nullptr)
    return Leave(cudaErrorInvalidValue);
  return WithKernel(function, [&](Gpu&, KernelCode& kernel) {
    *name = kernel.name.c_str();
    return Error::kSuccess;
  });
}

VRANK_CUDART cudaError_t cudaFuncGetParamInfo(const void* function, size_t index,
                                              size_t* offset, size_t* size) {
  return WithKernel(function, [&](Gpu&, KernelCode& kernel) {
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
  return WithKernel(function, [&](Gpu& gpu, KernelCode&) {
    *blocks = ActiveBlocks(gpu.channel()->settings().gpu, block_size, dynamic_shared);
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
  return WithKernel(function, [&](Gpu& gpu, KernelCode&) {
    const vrank::protocol::GpuProperties& properties = gpu.channel()->settings().gpu;
    const uint64_t share =
        properties.shared_per_multiprocessor / static_cast<uint64_t>(blocks);
    *bytes = std::min<uint64_t>(share > 1024 ? share - 1024 : 0,
                                properties.shared_per_block_optin);
    return Error::kSuccess;
  });
}
