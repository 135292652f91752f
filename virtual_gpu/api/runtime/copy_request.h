// What copies of several chapters of cudart share: reading their arguments.
//
// Thread rule: any thread.

#ifndef VRANK_VIRTUAL_GPU_API_RUNTIME_COPY_REQUEST_H_
#define VRANK_VIRTUAL_GPU_API_RUNTIME_COPY_REQUEST_H_

#include <cuda_runtime_api.h>

#include <cstddef>

#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {

// All but the stream. `parameters` may be null.
Error ReadCopy(const cudaMemcpy3DParms* parameters, CopyRequest* request);

// The address of byte `offset` of a device variable, where `count` bytes fit.
cudaError_t Locate(const void* symbol, size_t count, size_t offset, void** address);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_RUNTIME_COPY_REQUEST_H_
