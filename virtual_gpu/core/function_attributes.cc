// What the machine code tells comes from there; the versions are the device's, and
// constant memory is not read.

#include "virtual_gpu/core/function_attributes.h"

namespace vrank::gpu {
namespace {

constexpr int kHighestSchedulingPolicy = 2;  // CU_CLUSTER_SCHEDULING_POLICY_...

int ClusterDimension(const KernelCode& kernel, FunctionAttribute attribute) {
  uint32_t cluster[3];
  RequiredCluster(kernel, cluster);
  return static_cast<int>(
      cluster[static_cast<int>(attribute) -
              static_cast<int>(FunctionAttribute::kRequiredClusterWidth)]);
}

}  // namespace

Error GetFunctionAttribute(const GpuProperties& gpu, const KernelCode& kernel,
                           FunctionAttribute attribute, int* value) {
  const KernelResources& resources = kernel.resources;
  switch (attribute) {
    case FunctionAttribute::kMaxThreadsPerBlock:
      *value = static_cast<int>(MostThreads(gpu, kernel));
      return Error::kSuccess;
    case FunctionAttribute::kSharedBytes:
      *value = static_cast<int>(resources.shared_bytes);
      return Error::kSuccess;
    case FunctionAttribute::kLocalBytes:
      *value = static_cast<int>(resources.local_bytes);
      return Error::kSuccess;
    case FunctionAttribute::kRegisters:
      *value = static_cast<int>(RegistersOf(kernel));
      return Error::kSuccess;
    case FunctionAttribute::kPtxVersion:
    case FunctionAttribute::kBinaryVersion:
      *value = static_cast<int>(gpu.compute_major * 10 + gpu.compute_minor);
      return Error::kSuccess;
    case FunctionAttribute::kConstantBytes:
    case FunctionAttribute::kCacheModeCa:
      *value = 0;
      return Error::kSuccess;
    case FunctionAttribute::kMaxDynamicSharedBytes:
      *value = static_cast<int>(MostDynamicShared(gpu, kernel));
      return Error::kSuccess;
    case FunctionAttribute::kPreferredSharedCarveout:
      *value = kernel.shared_carveout.load();
      return Error::kSuccess;
    case FunctionAttribute::kClusterSizeMustBeSet:
      *value = resources.needs_cluster || kernel.needs_cluster.load() != 0 ? 1 : 0;
      return Error::kSuccess;
    case FunctionAttribute::kRequiredClusterWidth:
    case FunctionAttribute::kRequiredClusterHeight:
    case FunctionAttribute::kRequiredClusterDepth:
      *value = ClusterDimension(kernel, attribute);
      return Error::kSuccess;
    case FunctionAttribute::kNonPortableClusterSizeAllowed:
      *value = kernel.non_portable_cluster.load();
      return Error::kSuccess;
    case FunctionAttribute::kClusterSchedulingPolicy:
      *value = kernel.cluster_scheduling.load();
      return Error::kSuccess;
  }
  return Error::kInvalidValue;
}

Error SetFunctionAttribute(const GpuProperties& gpu, KernelCode* kernel,
                           FunctionAttribute attribute, int value) {
  switch (attribute) {
    // "The value can be increased to
    // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN -
    // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES."
    case FunctionAttribute::kMaxDynamicSharedBytes:
      if (value < 0 || static_cast<uint64_t>(value) + kernel->resources.shared_bytes >
                           gpu.shared_per_block_optin)
        return Error::kInvalidValue;
      kernel->max_dynamic_shared = value;
      return Error::kSuccess;
    case FunctionAttribute::kPreferredSharedCarveout:
      if (value < -1 || value > 100)
        return Error::kInvalidValue;
      kernel->shared_carveout = value;
      return Error::kSuccess;
    case FunctionAttribute::kClusterSizeMustBeSet:
      kernel->needs_cluster = value != 0;
      return Error::kSuccess;
    // "If the value is set during compile time, it cannot be set at runtime. Setting it
    // at runtime will return CUDA_ERROR_NOT_PERMITTED."
    case FunctionAttribute::kRequiredClusterWidth:
    case FunctionAttribute::kRequiredClusterHeight:
    case FunctionAttribute::kRequiredClusterDepth:
      if (kernel->resources.cluster[0] != 0)
        return Error::kNotPermitted;
      if (value < 0)
        return Error::kInvalidValue;
      kernel->cluster[static_cast<int>(attribute) -
                      static_cast<int>(FunctionAttribute::kRequiredClusterWidth)] =
          value;
      return Error::kSuccess;
    case FunctionAttribute::kNonPortableClusterSizeAllowed:
      kernel->non_portable_cluster = value != 0;
      return Error::kSuccess;
    case FunctionAttribute::kClusterSchedulingPolicy:
      if (value < 0 || value > kHighestSchedulingPolicy)
        return Error::kInvalidValue;
      kernel->cluster_scheduling = value;
      return Error::kSuccess;
    default:
      return Error::kInvalidValue;
  }
}

}  // namespace vrank::gpu
