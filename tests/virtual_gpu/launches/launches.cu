// CUDA runtime API, "Execution control" and "Occupancy": launches that a GPU of compute
// capability 9.0 refuses. As tests/virtual_gpu/conformance, but with kernels.

#include <cuda_runtime.h>

#include <cstdio>

#include "tests/virtual_gpu/conformance/rule.h"

namespace conformance {

int failures = 0;
void Fail(const char* file, int line, const char* what, const char* seen) {
  ++failures;
  printf("     %s:%d: %s: %s\n", file, line, what, seen);
}

}  // namespace conformance

namespace {

__global__ void Plain(int* p) {
  if (p != nullptr)
    p[0] = 1;
}
__global__ void __launch_bounds__(256) Bounded(int* p) {
  if (p != nullptr)
    p[0] = 1;
}
__global__ void __cluster_dims__(2, 1, 1) Clustered(int* p) {
  if (p != nullptr)
    p[0] = 1;
}
__global__ void Shared(int* p) {
  extern __shared__ int values[];
  if (p != nullptr)
    p[0] = values[0];
}

int* const kNothing = nullptr;

// `kernel<<<...>>>` returns nothing: the error is the last one.
template <typename Kernel>
cudaError_t Launch(Kernel kernel, dim3 grid, dim3 block, size_t shared = 0) {
  kernel<<<grid, block, shared>>>(kNothing);
  return cudaGetLastError();
}

template <typename Kernel>
cudaError_t LaunchClusters(Kernel kernel, unsigned grid, unsigned cluster) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {cluster, 1, 1};
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = grid;
  configuration.blockDim = 128;
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  return cudaLaunchKernelEx(&configuration, kernel, kNothing);
}

template <typename Kernel>
const void* Address(Kernel kernel) {
  return reinterpret_cast<const void*>(kernel);
}

// cudaErrorInvalidConfiguration: "a kernel launch is requesting resources that can
// never be satisfied by the current device". The limits: CUDA C++ Programming Guide,
// "Compute Capabilities".
void DimensionsAreChecked() {
  EXPECT_OK(Launch(Plain, 1, 1024));
  EXPECT_ERROR(cudaErrorInvalidConfiguration, Launch(Plain, 1, 1025));
  EXPECT_ERROR(cudaErrorInvalidConfiguration, Launch(Plain, 0, 32));
  EXPECT_ERROR(cudaErrorInvalidConfiguration, Launch(Plain, 1, 0));
  EXPECT_ERROR(cudaErrorInvalidConfiguration, Launch(Plain, dim3(1, 65536), 1));
  EXPECT_ERROR(cudaErrorInvalidConfiguration, Launch(Plain, 1, dim3(1, 1, 65)));
}

// cudaFuncAttributes::maxThreadsPerBlock: "The maximum number of threads per block,
// beyond which a launch of the function would fail."
void LaunchBoundsAreChecked() {
  cudaFuncAttributes attributes;
  EXPECT_OK(cudaFuncGetAttributes(&attributes, Address(Bounded)));
  EXPECT_THAT(attributes.maxThreadsPerBlock == 256);
  EXPECT_THAT(attributes.numRegs > 0 && attributes.numRegs < 32);
  EXPECT_OK(Launch(Bounded, 1, 256));
  EXPECT_ERROR(cudaErrorLaunchOutOfResources, Launch(Bounded, 1, 257));
  void* arguments[] = {const_cast<int**>(&kNothing)};
  EXPECT_ERROR(cudaErrorLaunchOutOfResources,
               cudaLaunchCooperativeKernel(Address(Bounded), 1, 257, arguments, 0, 0));
}

// cudaFuncAttributes::maxDynamicSharedSizeBytes: "Any launch must have a dynamic shared
// memory size smaller than this value."
void SharedMemoryNeedsTheOptIn() {
  constexpr int kBytes = 100 << 10;
  EXPECT_OK(Launch(Shared, 1, 32, 48 << 10));
  EXPECT_ERROR(cudaErrorInvalidValue, Launch(Shared, 1, 32, kBytes));
  int blocks = -1;
  EXPECT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Shared, 32, kBytes));
  EXPECT_THAT(blocks == 0);
  constexpr auto kMost = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_OK(cudaFuncSetAttribute(Address(Shared), kMost, kBytes));
  EXPECT_OK(Launch(Shared, 1, 32, kBytes));
  EXPECT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Shared, 32, kBytes));
  EXPECT_THAT(blocks == 2);
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaFuncSetAttribute(Address(Shared), kMost, 228 << 10));
  // Another kernel's attribute is its own.
  EXPECT_ERROR(cudaErrorInvalidValue, Launch(Plain, 1, 32, kBytes));
}

// cudaErrorInvalidClusterSize: "This indicates that a kernel launch error has occurred
// due to cluster misconfiguration."
void ClustersAreChecked() {
  EXPECT_OK(LaunchClusters(Plain, 64, 8));
  EXPECT_ERROR(cudaErrorInvalidClusterSize, LaunchClusters(Plain, 63, 2));
  EXPECT_ERROR(cudaErrorInvalidClusterSize, LaunchClusters(Plain, 64, 16));
  EXPECT_OK(cudaFuncSetAttribute(Address(Plain),
                                 cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  EXPECT_OK(LaunchClusters(Plain, 64, 16));
  EXPECT_ERROR(cudaErrorInvalidClusterSize, LaunchClusters(Plain, 64, 32));
  EXPECT_OK(Launch(Clustered, 4, 32));
  EXPECT_ERROR(cudaErrorInvalidClusterSize, Launch(Clustered, 3, 32));
  EXPECT_ERROR(cudaErrorInvalidClusterSize, LaunchClusters(Clustered, 64, 4));
}

// cudaOccupancyMaxPotentialClusterSize: "By default this function will always return a
// value that's portable on future hardware. A higher value may be returned if the
// kernel function allows non-portable cluster sizes." cudaOccupancyMaxActiveClusters:
// "the cluster size must be specified in config".
void ClustersHaveAnOccupancy() {
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = 64;
  configuration.blockDim = 128;
  int size = 0;
  EXPECT_OK(cudaOccupancyMaxPotentialClusterSize(&size, Bounded, &configuration));
  EXPECT_THAT(size == 8);
  EXPECT_OK(cudaOccupancyMaxPotentialClusterSize(&size, Clustered, &configuration));
  EXPECT_THAT(size == 2);
  int clusters = 0;
  EXPECT_ERROR(cudaErrorInvalidValue,
               cudaOccupancyMaxActiveClusters(&clusters, Bounded, &configuration));
  EXPECT_OK(cudaOccupancyMaxActiveClusters(&clusters, Clustered, &configuration));
  EXPECT_THAT(clusters > 0);
}

// cudaLaunchCooperativeKernel: "The total number of blocks launched cannot exceed the
// maximum number of blocks per multiprocessor as returned by
// cudaOccupancyMaxActiveBlocksPerMultiprocessor [...] times the number of
// multiprocessors".
void CooperativeLaunchesFitAtOnce() {
  int blocks = 0;
  int multiprocessors = 0;
  EXPECT_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Bounded, 128, 0));
  EXPECT_OK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  void* arguments[] = {const_cast<int**>(&kNothing)};
  const auto most = static_cast<unsigned>(blocks * multiprocessors);
  EXPECT_THAT(most > 0);
  EXPECT_OK(cudaLaunchCooperativeKernel(Address(Bounded), most, 128, arguments, 0, 0));
  EXPECT_ERROR(
      cudaErrorCooperativeLaunchTooLarge,
      cudaLaunchCooperativeKernel(Address(Bounded), most + 1, 128, arguments, 0, 0));
}

// cudaErrorInvalidDeviceFunction: "The requested device function does not exist".
void FunctionsAreChecked() {
  void* arguments[] = {const_cast<int**>(&kNothing)};
  EXPECT_ERROR(cudaErrorInvalidDeviceFunction,
               cudaLaunchKernel(reinterpret_cast<const void*>(FunctionsAreChecked), 1,
                                1, arguments, 0, nullptr));
}

// What a graph launches obeys the same rules, whether it was captured or built.
void GraphsObeyTheSameRules() {
  cudaStream_t stream;
  cudaGraph_t graph;
  EXPECT_OK(cudaStreamCreate(&stream));
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  Bounded<<<1, 257, 0, stream>>>(kNothing);
  EXPECT_THAT(cudaGetLastError() == cudaErrorLaunchOutOfResources);
  Bounded<<<1, 256, 0, stream>>>(kNothing);
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphLaunch(exec, stream));
  cudaKernelNodeParams parameters{};
  void* arguments[] = {const_cast<int**>(&kNothing)};
  parameters.func = reinterpret_cast<void*>(Bounded);
  parameters.gridDim = 1;
  parameters.blockDim = 257;
  parameters.kernelParams = arguments;
  cudaGraphNode_t node;
  EXPECT_ERROR(cudaErrorLaunchOutOfResources,
               cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  EXPECT_OK(cudaStreamSynchronize(stream));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_OK(cudaStreamDestroy(stream));
}

constexpr conformance::Rule kRules[] = {
    {"dimensions are checked", DimensionsAreChecked},
    {"launch bounds are checked", LaunchBoundsAreChecked},
    {"shared memory needs the opt-in", SharedMemoryNeedsTheOptIn},
    {"clusters are checked", ClustersAreChecked},
    {"clusters have an occupancy", ClustersHaveAnOccupancy},
    {"cooperative launches fit at once", CooperativeLaunchesFitAtOnce},
    {"functions are checked", FunctionsAreChecked},
    {"graphs obey the same rules", GraphsObeyTheSameRules},
};

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    printf("no GPU: nothing checked\n");
    return 77;
  }
  int broken = 0;
  for (const conformance::Rule& rule : kRules) {
    conformance::failures = 0;
    rule.check();
    printf("%s %s\n", conformance::failures == 0 ? "ok  " : "FAIL", rule.name);
    broken += conformance::failures == 0 ? 0 : 1;
  }
  return broken == 0 ? 0 : 1;
}
