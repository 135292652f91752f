// A launch configuration of libcuda as the virtual GPU takes it.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_DRIVER_LAUNCH_CONFIGURATION_H_
#define VRANK_VIRTUAL_GPU_API_DRIVER_LAUNCH_CONFIGURATION_H_

#include <cuda.h>

#include "virtual_gpu/core/launch_rules.h"

namespace vrank::gpu {

// A CUfunction, and a CUkernel, is the address of its KernelCode.
inline KernelCode* CodeOf(CUfunction function) {
  return reinterpret_cast<KernelCode*>(function);
}

// All but the arguments.
inline Error ReadConfiguration(const CUlaunchConfig& from, CUfunction function,
                               KernelLaunch* launch) {
  if (function == nullptr)
    return Error::kInvalidHandle;
  if (from.numAttrs > 0 && from.attrs == nullptr)
    return Error::kInvalidValue;
  *launch = {.kernel = CodeOf(function),
             .grid = {from.gridDimX, from.gridDimY, from.gridDimZ},
             .block = {from.blockDimX, from.blockDimY, from.blockDimZ},
             .shared_bytes = from.sharedMemBytes,
             .stream = from.hStream};
  for (unsigned i = 0; i < from.numAttrs; ++i)
    VRANK_RETURN_IF_FAILED(ReadLaunchAttribute(static_cast<int>(from.attrs[i].id),
                                               &from.attrs[i].value, launch));
  return Error::kSuccess;
}

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_DRIVER_LAUNCH_CONFIGURATION_H_
