// Occupancy against NVIDIA's own calculator, which the CUDA toolkit has as a header;
// the rules of launches against the driver API's documentation.

#include "virtual_gpu/core/launch_rules.h"

#include <cuda_occupancy.h>

#include <algorithm>
#include <memory>
#include <random>

#include "tests/virtual_gpu/core/gpu_fixture.h"
#include "virtual_gpu/core/function_attributes.h"

namespace vrank::gpu {
namespace {

struct Device {
  uint32_t major, minor, threads, blocks;
  uint64_t shared, shared_optin;  // KiB: of a multiprocessor, of a block by opting in
};
// CUDA C++ Programming Guide, "Compute capabilities".
constexpr Device kDevices[] = {{8, 0, 2048, 32, 164, 163},
                               {8, 9, 1536, 24, 100, 99},
                               {9, 0, 2048, 32, 228, 227},
                               {10, 0, 2048, 32, 228, 227},
                               {12, 0, 1536, 24, 100, 99}};

GpuProperties PropertiesOf(const Device& device) {
  GpuProperties gpu{};
  gpu.compute_major = device.major;
  gpu.compute_minor = device.minor;
  gpu.multiprocessors = 132;
  gpu.registers_per_multiprocessor = 65536;
  gpu.threads_per_multiprocessor = device.threads;
  gpu.blocks_per_multiprocessor = device.blocks;
  gpu.shared_per_block = 48 << 10;
  gpu.shared_per_block_optin = device.shared_optin << 10;
  gpu.shared_per_multiprocessor = device.shared << 10;
  return gpu;
}

cudaOccDeviceProp CalculatorsView(const GpuProperties& gpu) {
  cudaOccDeviceProp view;
  view.computeMajor = static_cast<int>(gpu.compute_major);
  view.computeMinor = static_cast<int>(gpu.compute_minor);
  view.maxThreadsPerBlock = 1024;
  view.maxThreadsPerMultiprocessor = static_cast<int>(gpu.threads_per_multiprocessor);
  view.regsPerBlock = view.regsPerMultiprocessor =
      static_cast<int>(gpu.registers_per_multiprocessor);
  view.warpSize = 32;
  view.sharedMemPerBlock = gpu.shared_per_block;
  view.sharedMemPerMultiprocessor = gpu.shared_per_multiprocessor;
  view.numSms = static_cast<int>(gpu.multiprocessors);
  view.sharedMemPerBlockOptin = gpu.shared_per_block_optin;
  view.reservedSharedMemPerBlock = 1024;
  return view;
}

class OccupancyTest : public testing::TestWithParam<Device> {};

TEST_P(OccupancyTest, AgreesWithNvidiasCalculator) {
  const GpuProperties gpu = PropertiesOf(GetParam());
  const cudaOccDeviceProp view = CalculatorsView(gpu);
  std::mt19937 random(7);
  auto below = [&](uint32_t limit) { return static_cast<int>(random() % limit); };
  int fitting = 0;
  for (int round = 0; round < 20000; ++round) {
    KernelCode kernel;
    kernel.resources.known = true;
    kernel.resources.registers = static_cast<uint32_t>(1 + below(255));
    kernel.resources.shared_bytes = static_cast<uint32_t>(below(3) * below(16000));
    kernel.resources.barriers = static_cast<uint32_t>(1 + below(4) * below(5));
    kernel.shared_carveout = below(2) == 0 ? -1 : below(101);
    if (below(2) == 0) {
      ASSERT_EQ(SetFunctionAttribute(
                    gpu, &kernel, FunctionAttribute::kMaxDynamicSharedBytes,
                    below(static_cast<uint32_t>(gpu.shared_per_block_optin -
                                                kernel.resources.shared_bytes))),
                Error::kSuccess);
    }
    const int threads = 1 + below(1200);
    const auto dynamic = static_cast<size_t>(below(2) * below(240000));

    cudaOccFuncAttributes attributes;
    attributes.maxThreadsPerBlock = 1024;
    attributes.numRegs = static_cast<int>(kernel.resources.registers);
    attributes.sharedSizeBytes = kernel.resources.shared_bytes;
    attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    attributes.maxDynamicSharedSizeBytes = MostDynamicShared(gpu, kernel);
    attributes.numBlockBarriers = static_cast<int>(kernel.resources.barriers);
    cudaOccDeviceState state;
    state.carveoutConfig = kernel.shared_carveout;
    cudaOccResult result{};
    ASSERT_EQ(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &view, &attributes,
                                                      &state, threads, dynamic),
              CUDA_OCC_SUCCESS);
    ASSERT_EQ(ActiveBlocks(gpu, kernel, static_cast<uint64_t>(threads), dynamic),
              static_cast<uint32_t>(result.activeBlocksPerMultiprocessor))
        << "registers " << kernel.resources.registers << ", static "
        << kernel.resources.shared_bytes << ", dynamic " << dynamic << " of "
        << attributes.maxDynamicSharedSizeBytes << ", threads " << threads
        << ", carveout " << kernel.shared_carveout << ", barriers "
        << kernel.resources.barriers;
    fitting += result.activeBlocksPerMultiprocessor > 0 ? 1 : 0;
  }
  EXPECT_GT(fitting, 5000);
}

// cuOccupancyAvailableDynamicSMemPerBlock: "Returns in *dynamicSmemSize the maximum
// size of dynamic shared memory to allow numBlocks blocks per SM."
TEST_P(OccupancyTest, AvailableSharedMemoryAllowsTheBlocks) {
  const GpuProperties gpu = PropertiesOf(GetParam());
  KernelCode kernel;
  kernel.resources.known = true;
  kernel.resources.registers = 32;
  kernel.resources.shared_bytes = 1000;
  ASSERT_EQ(
      SetFunctionAttribute(gpu, &kernel, FunctionAttribute::kMaxDynamicSharedBytes,
                           static_cast<int>(gpu.shared_per_block_optin) - 1000),
      Error::kSuccess);
  for (uint32_t blocks = 1; blocks <= 8; ++blocks) {
    uint64_t bytes = 0;
    ASSERT_EQ(AvailableDynamicShared(gpu, kernel, blocks, 128, &bytes),
              Error::kSuccess);
    EXPECT_GE(ActiveBlocks(gpu, kernel, 128, bytes), blocks) << bytes;
  }
  uint64_t bytes = 0;
  EXPECT_EQ(AvailableDynamicShared(gpu, kernel, 33, 128, &bytes), Error::kInvalidValue);
}

INSTANTIATE_TEST_SUITE_P(Devices, OccupancyTest, testing::ValuesIn(kDevices));

class LaunchRulesTest : public GpuTest {
 protected:
  LaunchRulesTest() : kernel(MakeKernel("_Z6kernelv")) {
    kernel->resources.known = true;
    kernel->resources.registers = 32;
  }
  ~LaunchRulesTest() override { delete kernel; }

  KernelLaunch LaunchOf(uint32_t grid, uint32_t block) const {
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.grid[0] = grid;
    launch.block[0] = block;
    return launch;
  }
  KernelLaunch ClusterLaunch(uint32_t grid, uint32_t cluster) const {
    KernelLaunch launch = LaunchOf(grid, 128);
    launch.cluster[0] = cluster;
    launch.cluster[1] = launch.cluster[2] = 1;
    return launch;
  }
  Error Set(FunctionAttribute attribute, int value) {
    return SetFunctionAttribute(channel.settings().gpu, kernel, attribute, value);
  }

  KernelCode* const kernel;
};

// CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: "The maximum number of threads per block,
// beyond which a launch of the function would fail."
// CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: "the kernel launch specifies too many threads for
// the kernel's register count".
TEST_F(LaunchRulesTest, TooManyThreadsForTheKernelAreRefused) {
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 1024)), Error::kSuccess);
  kernel->resources.registers = 128;
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 512)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 513)), Error::kLaunchOutOfResources);
  kernel->resources.most_threads = 256;
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 256)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 257)), Error::kLaunchOutOfResources);
  // cudaErrorInvalidConfiguration: "requesting resources that can never be satisfied by
  // the current device".
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 1025)), Error::kInvalidConfiguration);
}

// CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: "If the user-specified dynamic
// shared memory size is larger than this value, the launch will fail. The default value
// of this attribute is CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK -
// CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES".
TEST_F(LaunchRulesTest, SharedMemoryNeedsTheOptIn) {
  kernel->resources.shared_bytes = 8 << 10;
  KernelLaunch launch = LaunchOf(1, 32);
  launch.shared_bytes = 40 << 10;
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  launch.shared_bytes += 1;
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kInvalidValue);
  ASSERT_EQ(Set(FunctionAttribute::kMaxDynamicSharedBytes, 100 << 10), Error::kSuccess);
  launch.shared_bytes = 100 << 10;
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  // "The value can be increased to
  // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
  // - CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES."
  EXPECT_EQ(Set(FunctionAttribute::kMaxDynamicSharedBytes, 219 << 10), Error::kSuccess);
  EXPECT_EQ(Set(FunctionAttribute::kMaxDynamicSharedBytes, 220 << 10),
            Error::kInvalidValue);
}

// CUDA_ERROR_INVALID_CLUSTER_SIZE: "This indicates that a kernel launch error has
// occurred due to cluster misconfiguration." CUlaunchAttributeValue::clusterDim: "The X
// dimension of the cluster, in blocks. Must be a divisor of the grid X dimension."
TEST_F(LaunchRulesTest, ClustersAreChecked) {
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 8)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(63, 8)), Error::kInvalidClusterSize);
  // "The portable cluster size for sm_90 is 8 blocks per cluster."
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 16)), Error::kInvalidClusterSize);
  ASSERT_EQ(Set(FunctionAttribute::kNonPortableClusterSizeAllowed, 1), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 16)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 32)), Error::kInvalidClusterSize);
  // __launch_bounds__'s third argument.
  kernel->resources.most_cluster = 4;
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 8)), Error::kInvalidClusterSize);
  channel.mutable_settings().gpu.compute_major = 8;
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 2)), Error::kNotSupported);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(64, 1)), Error::kSuccess);
}

// __cluster_dims__: "the cluster size from config must either be unspecified or match
// the required size" (cuOccupancyMaxActiveClusters).
TEST_F(LaunchRulesTest, RequiredClustersAreKept) {
  kernel->resources.cluster[0] = 2;
  kernel->resources.cluster[1] = kernel->resources.cluster[2] = 1;
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(4, 32)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(3, 32)), Error::kInvalidClusterSize);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(4, 2)), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(4, 4)), Error::kInvalidClusterSize);
  // "If the value is set during compile time, it cannot be set at runtime. Setting it
  // at runtime will return CUDA_ERROR_NOT_PERMITTED."
  EXPECT_EQ(Set(FunctionAttribute::kRequiredClusterWidth, 4), Error::kNotPermitted);
}

// CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: "the kernel must launch with a valid
// cluster size specified".
TEST_F(LaunchRulesTest, AClusterMayHaveToBeStated) {
  ASSERT_EQ(Set(FunctionAttribute::kClusterSizeMustBeSet, 1), Error::kSuccess);
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(4, 32)), Error::kInvalidClusterSize);
  EXPECT_EQ(gpu->LaunchKernel(ClusterLaunch(4, 2)), Error::kSuccess);
}

// __block_size__ with two arguments: the grid counts clusters.
TEST_F(LaunchRulesTest, AGridOfClustersIsRecordedInBlocks) {
  KernelResources& resources = kernel->resources;
  resources.blocks_are_clusters = true;
  resources.block[0] = 64;
  resources.block[1] = resources.block[2] = 1;
  resources.cluster[0] = 2;
  resources.cluster[1] = resources.cluster[2] = 1;
  ASSERT_EQ(gpu->LaunchKernel(LaunchOf(3, 64)), Error::kSuccess);
  const auto kernels = channel.records(RecordKind::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].as<protocol::Kernel>().grid[0], 6u);
  // PTX ISA, ".reqntid": "Specifying a different CTA dimension at launch will cause a
  // runtime error or kernel launch failure."
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(3, 32)), Error::kInvalidValue);
}

// cuLaunchCooperativeKernel: "The total number of blocks launched cannot exceed the
// maximum number of blocks per multiprocessor as returned by
// cuOccupancyMaxActiveBlocksPerMultiprocessor [...] times the number of
// multiprocessors".
TEST_F(LaunchRulesTest, CooperativeLaunchesFitAtOnce) {
  const uint32_t most = 132 * ActiveBlocks(channel.settings().gpu, *kernel, 128, 0);
  ASSERT_EQ(most, 132u * 16);
  KernelLaunch launch = LaunchOf(most, 128);
  launch.cooperative = true;
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  ++launch.grid[0];
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kCooperativeLaunchTooLarge);
  launch.cooperative = false;
  EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
}

// cudaErrorNoKernelImageForDevice: "there is no kernel image available that is suitable
// for the device".
TEST_F(LaunchRulesTest, KernelsOfOtherArchitecturesAreRefused) {
  kernel->resources.runnable = false;
  EXPECT_EQ(gpu->LaunchKernel(LaunchOf(1, 32)), Error::kNoBinaryForGpu);
}

// What may change between a node and its executable graph is checked there again.
TEST_F(LaunchRulesTest, GraphsAreRefusedWhenTheyAreInstantiated) {
  constexpr int kClusterDimension = 4;
  Graphs& graphs = gpu->graphs();
  void* graph = nullptr;
  void* node = nullptr;
  ASSERT_EQ(graphs.Create(&graph), Error::kSuccess);
  GraphNodeParameters parameters = LaunchOf(64, 128);
  ASSERT_EQ(graphs.AddNode(graph, {}, &parameters, &node), Error::kSuccess);
  GraphNodeParameters wrong = LaunchOf(1, 1025);
  void* none = nullptr;
  EXPECT_EQ(graphs.AddNode(graph, {}, &wrong, &none), Error::kInvalidConfiguration);
  unsigned char value[Graphs::kAttributeBytes] = {};
  const uint32_t cluster[3] = {16, 1, 1};
  std::memcpy(value, cluster, sizeof cluster);
  ASSERT_EQ(graphs.SetKernelAttribute(node, kClusterDimension, value), Error::kSuccess);
  Instantiation how;
  void* exec = nullptr;
  EXPECT_EQ(graphs.Instantiate(graph, &how, &exec), Error::kInvalidClusterSize);
  EXPECT_EQ(how.error_node, node);
  ASSERT_EQ(Set(FunctionAttribute::kNonPortableClusterSizeAllowed, 1), Error::kSuccess);
  EXPECT_EQ(graphs.Instantiate(graph, &how, &exec), Error::kSuccess);
}

}  // namespace
}  // namespace vrank::gpu
