// A launch configuration of cudart as the virtual GPU takes it.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_RUNTIME_LAUNCH_CONFIGURATION_H_
#define VRANK_VIRTUAL_GPU_API_RUNTIME_LAUNCH_CONFIGURATION_H_

#include <cuda_runtime_api.h>

#include "virtual_gpu/core/launch_rules.h"

namespace vrank::gpu {

inline void Assign(uint32_t* to, const dim3& from) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
}

// All but the arguments.
inline Error ReadConfiguration(const cudaLaunchConfig_t& from, KernelCode* kernel,
                               KernelLaunch* launch) {
  if (from.numAttrs > 0 && from.attrs == nullptr)
    return Error::kInvalidValue;
  launch->kernel = kernel;
  Assign(launch->grid, from.gridDim);
  Assign(launch->block, from.blockDim);
  launch->shared_bytes = from.dynamicSmemBytes;
  launch->stream = from.stream;
  for (unsigned i = 0; i < from.numAttrs; ++i)
    VRANK_RETURN_IF_FAILED(ReadLaunchAttribute(static_cast<int>(from.attrs[i].id),
                                               &from.attrs[i].val, launch));
  return Error::kSuccess;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_RUNTIME_LAUNCH_CONFIGURATION_H_
