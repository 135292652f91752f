// What a cublasHandle_t is: settings for the calls that follow, on one device.
//
// Thread rule: as in cuBLAS, one handle is used by one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_API_BLAS_BLAS_HANDLE_H_
#define VRANK_VIRTUAL_GPU_API_BLAS_BLAS_HANDLE_H_

#include <cublas_v2.h>

#include <cstdint>

#include "virtual_gpu/api/gemm/blas_status.h"
#include "virtual_gpu/api/gemm/gemm_call.h"

struct cublasContext {
  vrank::gpu::HandleTag tag;  // first: see HandleTag
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
  uint64_t workspace = 0;  // device memory that comes with it
};

namespace vrank::gpu {

cublasStatus_t CreateHandle(cublasHandle_t* handle);
cublasStatus_t DestroyHandle(cublasHandle_t handle);

// Checks and launches.
cublasStatus_t RunGemm(cublasHandle_t handle, const GemmCall& call);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_BLAS_BLAS_HANDLE_H_
