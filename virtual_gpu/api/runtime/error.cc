// cudart, chapter "Error handling".

#include "virtual_gpu/api/runtime/entry.h"

using vrank::gpu::LastError;

VRANK_CUDART cudaError_t cudaGetLastError() {
  return LastError(true);
}

VRANK_CUDART cudaError_t cudaPeekAtLastError() {
  return LastError(false);
}

VRANK_CUDART const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define VRANK_CUDA_ERROR(name, text) \
  case name:                         \
    return #name;
#include "virtual_gpu/api/runtime/errors.def"
#undef VRANK_CUDA_ERROR
    default:
      return "unrecognized error code";
  }
}

VRANK_CUDART const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define VRANK_CUDA_ERROR(name, text) \
  case name:                         \
    return text;
#include "virtual_gpu/api/runtime/errors.def"
#undef VRANK_CUDA_ERROR
    default:
      return "unrecognized error code";
  }
}
