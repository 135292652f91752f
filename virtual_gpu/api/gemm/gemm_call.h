// One GEMM as a program asks for it, from either BLAS library, on its way to the GPU.
//
// Thread rule: plain values; Launch may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_GEMM_GEMM_CALL_H_
#define VRANK_VIRTUAL_GPU_API_GEMM_GEMM_CALL_H_

#include <cublas_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "virtual_gpu/core/gpu.h"

namespace vrank::gpu {

// Matrices are column-major: column j of an m x n matrix starts at j * ld.
struct Matrix {
  const void* data = nullptr;
  cudaDataType_t type = CUDA_R_32F;
  int64_t ld = 0;
  int64_t stride = 0;  // elements from one matrix of a batch to the next
};

// C = alpha op(A) op(B) + beta C, `batch` times.
struct GemmCall {
  const char* name = "";  // the API function
  cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  const void* alpha = nullptr;
  const void* beta = nullptr;
  bool own_scalars = false;  // the library's own: on the host, whatever the handle says
  Matrix a, b, c;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  // Batches of separate matrices: device memory that holds `batch` pointers to C.
  const void* const* c_array = nullptr;
};

// CUBLAS_STATUS_INVALID_VALUE for the arguments that cuBLAS documents as invalid.
cublasStatus_t CheckArguments(const GemmCall& call);

// Whether a host or device scalar makes C an input. What lies on the device is not
// looked at: C then counts as read.
bool ScalesC(const void* beta, cudaDataType_t scale_type, bool on_host);

// The memory that C takes: one block where the matrices of the batch follow each other.
std::vector<WrittenBlock> OutputBlocks(void* data, int64_t rows, int64_t columns,
                                       int64_t ld, int64_t stride, int64_t batch,
                                       uint32_t element_bytes);

// What all starts of the columns of these matrices are multiples of: bytes, at most 16,
// the most that one access moves. Where data is null, its address counts as aligned.
struct MatrixInMemory {
  const void* data = nullptr;
  uint64_t element_bytes = 1;
  int64_t columns = 1, ld = 0;
  int64_t batch = 1, stride = 0;  // in elements, as ld
};
uint8_t AlignmentOf(std::span<const MatrixInMemory> matrices);

// Reads a pointer array from device memory. False where its contents are not known.
bool ReadPointerArray(const void* const* array, int64_t count,
                      std::vector<void*>* pointers);

// REQUIRES: CheckArguments(call) is a success, and the types are supported.
cublasStatus_t Launch(Gpu* gpu, const GemmCall& call, void* stream, bool host_scalars,
                      bool tf32);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_GEMM_GEMM_CALL_H_
