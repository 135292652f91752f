// Limits by compute capability, and the rules that combine them.

#include "virtual_gpu/core/launch_rules.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "virtual_gpu/core/range_allocator.h"

namespace vrank::gpu {
namespace {

// Limits of every GPU since Pascal (CUDA C++ Programming Guide, compute capabilities).
constexpr uint32_t kMaxThreadsPerBlock = 1024;
constexpr uint32_t kMaxBlock[3] = {1024, 1024, 64};
constexpr uint32_t kMaxGrid[3] = {0x7fffffff, 65535, 65535};
constexpr uint32_t kWarp = 32;

// cuda_occupancy.h, since compute capability 8.0.
constexpr uint32_t kPartitions = 4;         // of a multiprocessor, each with registers
constexpr uint32_t kRegisterGranule = 256;  // per warp
constexpr uint64_t kSharedGranule = 128;    // per block
constexpr uint64_t kReservedShared = 1024;  // per block
constexpr uint64_t kSharedSizes[] = {0,   8,   16,  32, 64, 100,
                                     132, 164, 196, 228};  // KiB, of a multiprocessor

// CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: "The portable cluster size for
// sm_90 is 8 blocks per cluster."
constexpr uint32_t kPortableCluster = 8;
// Hopper and Blackwell tuning guides, "Thread Block Clusters": 16 by opting in, which
// GPUs of compute capability 12.x do not have.
constexpr uint32_t kLargestCluster = 16;

// CUlaunchAttributeID.
constexpr int kCooperative = 2;
constexpr int kClusterDimension = 4;
constexpr int kProgrammaticEvent = 7;
constexpr int kLaunchCompletionEvent = 12;
constexpr int kDeviceUpdatableNode = 13;

bool HasClusters(const GpuProperties& gpu) {
  return gpu.compute_major >= 9;
}

// Blocks that find barriers, which limit them from compute capability 9.0 on.
uint64_t BlocksByBarriers(const GpuProperties& gpu, const KernelCode& kernel) {
  const uint64_t most = gpu.blocks_per_multiprocessor;
  const bool has_one_per_block = (gpu.compute_major == 10 && gpu.compute_minor == 1) ||
                                 (gpu.compute_major == 11 && gpu.compute_minor == 0) ||
                                 gpu.compute_major >= 12;
  return gpu.compute_major < 9 ? most
                               : most * (has_one_per_block ? 1 : 2) /
                                     std::max(kernel.resources.barriers, 1u);
}

// Warps that find registers, of all blocks on a multiprocessor together.
uint64_t WarpsByRegisters(const GpuProperties& gpu, const KernelCode& kernel) {
  const uint64_t per_warp = RoundUp(RegistersOf(kernel) * kWarp, kRegisterGranule);
  return gpu.registers_per_multiprocessor / kPartitions / per_warp * kPartitions;
}

// The size of a multiprocessor's shared memory next to `bytes`, the rest being L1.
uint64_t SharedSize(const GpuProperties& gpu, uint64_t bytes) {
  for (const uint64_t size : kSharedSizes)
    if (bytes <= size << 10)
      return std::min(size << 10, gpu.shared_per_multiprocessor);
  return gpu.shared_per_multiprocessor;
}

// What a multiprocessor has for blocks of this kernel that take `bytes` each.
// CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: "in percent of the total shared
// memory. [...] the driver can choose a different ratio if required to execute the
// function."
uint64_t SharedFor(const GpuProperties& gpu, const KernelCode& kernel, uint64_t bytes) {
  const int percent = kernel.shared_carveout.load();
  const uint64_t wanted =
      percent < 0 ? gpu.shared_per_multiprocessor
                  : SharedSize(gpu, gpu.shared_per_multiprocessor *
                                        static_cast<uint64_t>(percent) / 100);
  return wanted >= bytes ? wanted : SharedSize(gpu, bytes);
}

Error CheckCluster(const GpuProperties& gpu, const KernelLaunch& launch) {
  const KernelCode& kernel = *launch.kernel;
  uint32_t cluster[3];
  RequiredCluster(kernel, cluster);
  const bool is_required = Product(cluster) != 0;
  const bool is_given = launch.cluster[0] + launch.cluster[1] + launch.cluster[2] != 0;
  if (!is_required && !is_given)
    return kernel.needs_cluster.load() || kernel.resources.needs_cluster
               ? Error::kInvalidClusterSize
               : Error::kSuccess;
  // "the cluster size from config must either be unspecified or match the required
  // size" (cuOccupancyMaxActiveClusters).
  if (is_required && is_given && !std::equal(cluster, cluster + 3, launch.cluster))
    return Error::kInvalidClusterSize;
  if (is_given)
    std::copy_n(launch.cluster, 3, cluster);
  const uint64_t blocks = Product(cluster);
  if (blocks == 1)
    return Error::kSuccess;
  if (!HasClusters(gpu))
    return Error::kNotSupported;
  if (blocks == 0 || blocks > MostCluster(gpu, kernel))
    return Error::kInvalidClusterSize;
  // CUlaunchAttributeValue::clusterDim: "Must be a divisor of the grid X dimension",
  // and so on. A grid that counts clusters is not divided.
  for (int i = 0; i < 3 && !kernel.resources.blocks_are_clusters; ++i)
    if (launch.grid[i] % cluster[i] != 0)
      return Error::kInvalidClusterSize;
  return Error::kSuccess;
}

}  // namespace

void BlocksOf(const KernelLaunch& launch, uint32_t* grid) {
  const KernelResources& resources = launch.kernel->resources;
  for (int i = 0; i < 3; ++i)
    grid[i] =
        launch.grid[i] * (resources.blocks_are_clusters ? resources.cluster[i] : 1);
}

uint32_t MostThreads(const GpuProperties& gpu, const KernelCode& kernel) {
  const KernelResources& resources = kernel.resources;
  const uint64_t required = Product(resources.block);
  const uint64_t bound = required != 0                 ? required
                         : resources.most_threads != 0 ? resources.most_threads
                                                       : kMaxThreadsPerBlock;
  return static_cast<uint32_t>(std::min(
      {bound, WarpsByRegisters(gpu, kernel) * kWarp, uint64_t{kMaxThreadsPerBlock}}));
}

uint64_t MostDynamicShared(const GpuProperties& gpu, const KernelCode& kernel) {
  const int set = kernel.max_dynamic_shared.load();
  const uint64_t fixed = kernel.resources.shared_bytes;
  // "The default value of this attribute is
  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK -
  // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, except when [it] is greater [...], then [it]
  // is 0."
  if (set < 0)
    return gpu.shared_per_block - std::min(fixed, gpu.shared_per_block);
  return static_cast<uint64_t>(set);
}

uint32_t ActiveBlocks(const GpuProperties& gpu, const KernelCode& kernel,
                      uint64_t threads, uint64_t dynamic_shared) {
  const KernelResources& resources = kernel.resources;
  const uint64_t warps = (threads + kWarp - 1) / kWarp;
  const uint64_t by_registers = WarpsByRegisters(gpu, kernel);
  // A block's registers are checked as if all partitions had as many warps of it.
  if (threads > kMaxThreadsPerBlock || RoundUp(warps, kPartitions) > by_registers ||
      dynamic_shared > MostDynamicShared(gpu, kernel))
    return 0;
  const uint64_t shared = RoundUp(
      resources.shared_bytes + dynamic_shared + kReservedShared, kSharedGranule);
  return static_cast<uint32_t>(std::min(
      {gpu.threads_per_multiprocessor / kWarp / warps, by_registers / warps,
       SharedFor(gpu, kernel, shared) / shared, uint64_t{gpu.blocks_per_multiprocessor},
       BlocksByBarriers(gpu, kernel)}));
}

Error AvailableDynamicShared(const GpuProperties& gpu, const KernelCode& kernel,
                             uint64_t blocks, uint64_t threads, uint64_t* bytes) {
  if (ActiveBlocks(gpu, kernel, threads, 0) < blocks)
    return Error::kInvalidValue;
  // The preferred size of shared memory does not bind a block that is alone.
  const uint64_t all = blocks == 1 ? gpu.shared_per_multiprocessor
                                   : SharedFor(gpu, kernel, kReservedShared);
  const uint64_t share = all / blocks / kSharedGranule * kSharedGranule;
  const uint64_t fixed = kernel.resources.shared_bytes + kReservedShared;
  *bytes = std::min(share - std::min(share, fixed), MostDynamicShared(gpu, kernel));
  return Error::kSuccess;
}

uint32_t MostCluster(const GpuProperties& gpu, const KernelCode& kernel) {
  if (!HasClusters(gpu))
    return 1;
  const bool may_be_large =
      kernel.non_portable_cluster.load() != 0 && gpu.compute_major < 12;
  const uint32_t most = may_be_large ? kLargestCluster : kPortableCluster;
  const uint32_t bound = kernel.resources.most_cluster;
  return bound == 0 ? most : std::min(most, bound);
}

uint32_t PotentialCluster(const GpuProperties& gpu, const KernelLaunch& launch) {
  const KernelCode& kernel = *launch.kernel;
  uint32_t cluster[3];
  RequiredCluster(kernel, cluster);
  const uint64_t threads = Product(launch.block);
  if (threads == 0 || ActiveBlocks(gpu, kernel, threads, launch.shared_bytes) == 0)
    return 0;
  // "If func has a required cluster size set [...], *clusterSize will reflect the
  // required cluster size."
  const uint64_t required = Product(cluster);
  return required != 0 ? static_cast<uint32_t>(required) : MostCluster(gpu, kernel);
}

Error ActiveClusters(const GpuProperties& gpu, const KernelLaunch& launch,
                     int* clusters) {
  uint32_t cluster[3];
  RequiredCluster(*launch.kernel, cluster);
  if (Product(cluster) == 0)
    std::copy_n(launch.cluster, 3, cluster);
  // "Without required sizes, the cluster size must be specified in config".
  if (Product(cluster) == 0 || Product(launch.block) == 0)
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(CheckCluster(gpu, launch));
  const uint64_t blocks =
      uint64_t{gpu.multiprocessors} *
      ActiveBlocks(gpu, *launch.kernel, Product(launch.block), launch.shared_bytes);
  *clusters = static_cast<int>(blocks / Product(cluster));
  return Error::kSuccess;
}

Error CheckLaunch(const GpuProperties& gpu, const KernelLaunch& launch) {
  if (launch.kernel == nullptr)
    return Error::kInvalidDeviceFunction;
  const KernelCode& kernel = *launch.kernel;
  if (!kernel.resources.runnable)
    return Error::kNoBinaryForGpu;
  for (int i = 0; i < 3; ++i)
    if (launch.grid[i] == 0 || launch.grid[i] > kMaxGrid[i] || launch.block[i] == 0 ||
        launch.block[i] > kMaxBlock[i])
      return Error::kInvalidConfiguration;
  const uint64_t threads = Product(launch.block);
  if (threads > kMaxThreadsPerBlock)
    return Error::kInvalidConfiguration;
  // PTX ISA, ".reqntid": "Specifying a different CTA dimension at launch will cause a
  // runtime error or kernel launch failure."
  if (kernel.resources.block[0] != 0 &&
      !std::equal(launch.block, launch.block + 3, kernel.resources.block))
    return Error::kInvalidValue;
  if (threads > MostThreads(gpu, kernel))
    return Error::kLaunchOutOfResources;
  if (launch.shared_bytes > MostDynamicShared(gpu, kernel))
    return Error::kInvalidValue;
  VRANK_RETURN_IF_FAILED(CheckCluster(gpu, launch));
  // cuLaunchCooperativeKernel: "The total number of blocks launched cannot exceed the
  // maximum number of blocks per multiprocessor [...] times the number of
  // multiprocessors".
  if (!launch.cooperative)
    return Error::kSuccess;
  uint32_t grid[3];
  BlocksOf(launch, grid);
  return Product(grid) > uint64_t{gpu.multiprocessors} *
                             ActiveBlocks(gpu, kernel, threads, launch.shared_bytes)
             ? Error::kCooperativeLaunchTooLarge
             : Error::kSuccess;
}

Error ReadLaunchAttribute(int id, const void* value, KernelLaunch* launch) {
  switch (id) {
    case kCooperative: {
      int is_cooperative = 0;
      std::memcpy(&is_cooperative, value, sizeof is_cooperative);
      launch->cooperative = is_cooperative != 0;
      return Error::kSuccess;
    }
    case kClusterDimension:
      std::memcpy(launch->cluster, value, sizeof launch->cluster);
      return Error::kSuccess;
    // Those that record events of their own, and nodes that kernels change.
    case kProgrammaticEvent:
    case kLaunchCompletionEvent:
    case kDeviceUpdatableNode:
      return Error::kNotSupported;
    // Others change where or how densely blocks run, which the modelled time does not
    // depend on. A programmatic dependency, by which a kernel begins before its
    // predecessor ends, is modelled as plain stream order.
    default:
      return Error::kSuccess;
  }
}

bool WriteLaunchAttribute(const KernelLaunch& launch, int id, void* value) {
  const int is_cooperative = launch.cooperative ? 1 : 0;
  if (id == kCooperative)
    std::memcpy(value, &is_cooperative, sizeof is_cooperative);
  else if (id == kClusterDimension)
    std::memcpy(value, launch.cluster, sizeof launch.cluster);
  else
    return false;
  return true;
}

}  // namespace vrank::gpu
