// Attributes of kernels: cudaFuncGetAttributes, cuFuncGetAttribute and their setters.
//
// Numbered as CUfunction_attribute, whose settable rows cudaFuncAttribute numbers
// alike.
//
// Thread rule: pure functions; a kernel's attributes are atomic.

#ifndef VRANK_VIRTUAL_GPU_CORE_FUNCTION_ATTRIBUTES_H_
#define VRANK_VIRTUAL_GPU_CORE_FUNCTION_ATTRIBUTES_H_

#include "virtual_gpu/core/launch_rules.h"

namespace vrank::gpu {

enum class FunctionAttribute : int {
  kMaxThreadsPerBlock = 0,
  kSharedBytes = 1,
  kConstantBytes = 2,
  kLocalBytes = 3,
  kRegisters = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kCacheModeCa = 7,
  kMaxDynamicSharedBytes = 8,
  kPreferredSharedCarveout = 9,
  kClusterSizeMustBeSet = 10,
  kRequiredClusterWidth = 11,
  kRequiredClusterHeight = 12,
  kRequiredClusterDepth = 13,
  kNonPortableClusterSizeAllowed = 14,
  kClusterSchedulingPolicy = 15,
};

// kInvalidValue for numbers that CUDA 13.0 does not define.
Error GetFunctionAttribute(const GpuProperties& gpu, const KernelCode& kernel,
                           FunctionAttribute attribute, int* value);
Error SetFunctionAttribute(const GpuProperties& gpu, KernelCode* kernel,
                           FunctionAttribute attribute, int value);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_FUNCTION_ATTRIBUTES_H_
