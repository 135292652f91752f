// libcuda, chapter "Occupancy".

#include <algorithm>

#include "virtual_gpu/api/driver/entry.h"
#include "virtual_gpu/api/driver/launch_configuration.h"

using vrank::gpu::Alias;
using vrank::gpu::CallInContext;
using vrank::gpu::CodeOf;
using vrank::gpu::Error;
using vrank::gpu::GpuProperties;
using vrank::gpu::KernelCode;
using vrank::gpu::KernelLaunch;
using vrank::gpu::ProcessGpu;
using vrank::gpu::ReadConfiguration;

namespace {

constexpr int kWarp = 32;

// Runs `step(properties, kernel)`.
template <typename Step>
CUresult WithKernel(CUfunction function, Step step,
                    const char* api = __builtin_FUNCTION()) {
  return CallInContext(
      [&](ProcessGpu& gpu) {
        return function == nullptr
                   ? Error::kInvalidHandle
                   : step(gpu.channel()->settings().gpu, *CodeOf(function));
      },
      api);
}

int Active(const GpuProperties& gpu, const KernelCode& kernel, int threads,
           size_t shared_bytes) {
  return static_cast<int>(
      ActiveBlocks(gpu, kernel, static_cast<uint64_t>(threads), shared_bytes));
}

}  // namespace

VRANK_CUDA CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int block_size, size_t shared_bytes, unsigned) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    if (blocks == nullptr || block_size <= 0)
      return Error::kInvalidValue;
    *blocks = Active(gpu, kernel, block_size, shared_bytes);
    return Error::kSuccess;
  });
}
VRANK_CUDA CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                CUfunction function,
                                                                int block_size,
                                                                size_t shared_bytes) {
  return Alias([&] {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks, function, block_size, shared_bytes, CU_OCCUPANCY_DEFAULT);
  });
}

// "Suggest a launch configuration with reasonable occupancy": of the block sizes with
// the most resident threads the largest, in whole warps.
VRANK_CUDA CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
    size_t shared_bytes, int limit, unsigned) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    if (grid == nullptr || block == nullptr || limit < 0)
      return Error::kInvalidValue;
    const int most = static_cast<int>(MostThreads(gpu, kernel));
    const int first = limit == 0 ? most : std::min(limit, most);
    int resident = 0;
    for (int size = first; size > 0; size = (size - 1) / kWarp * kWarp) {
      const size_t shared = shared_of == nullptr ? shared_bytes : shared_of(size);
      const int active = Active(gpu, kernel, size, shared);
      if (active * size > resident) {
        resident = active * size;
        *block = size;
        *grid = active * static_cast<int>(gpu.multiprocessors);
      }
    }
    return resident == 0 ? Error::kInvalidValue : Error::kSuccess;
  });
}
VRANK_CUDA CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block,
                                                     CUfunction function,
                                                     CUoccupancyB2DSize shared_of,
                                                     size_t shared_bytes, int limit) {
  return Alias([&] {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid, block, function, shared_of, shared_bytes, limit, CU_OCCUPANCY_DEFAULT);
  });
}

VRANK_CUDA CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes,
                                                            CUfunction function,
                                                            int blocks,
                                                            int block_size) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode& kernel) {
    if (bytes == nullptr || blocks <= 0 || block_size <= 0)
      return Error::kInvalidValue;
    return AvailableDynamicShared(gpu, kernel, static_cast<uint64_t>(blocks),
                                  static_cast<uint64_t>(block_size), bytes);
  });
}

VRANK_CUDA CUresult cuOccupancyMaxPotentialClusterSize(
    int* size, CUfunction function, const CUlaunchConfig* configuration) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode&) {
    KernelLaunch launch;
    if (size == nullptr || configuration == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(ReadConfiguration(*configuration, function, &launch));
    *size = static_cast<int>(PotentialCluster(gpu, launch));
    return Error::kSuccess;
  });
}

VRANK_CUDA CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function,
                                                 const CUlaunchConfig* configuration) {
  return WithKernel(function, [&](const GpuProperties& gpu, KernelCode&) {
    KernelLaunch launch;
    if (clusters == nullptr || configuration == nullptr)
      return Error::kInvalidValue;
    VRANK_RETURN_IF_FAILED(ReadConfiguration(*configuration, function, &launch));
    return ActiveClusters(gpu, launch, clusters);
  });
}
