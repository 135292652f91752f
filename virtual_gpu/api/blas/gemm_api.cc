// libcublas: matrix products, one matrix or batches, 32- and 64-bit indices.

#include "base/guest/export.h"
#include "virtual_gpu/api/blas/blas_handle.h"

#define CUBLAS_ENTRY extern "C" VRANK_EXPORT cublasStatus_t

namespace {

using vrank::gpu::GemmCall;
using vrank::gpu::RunGemm;

// The part that all entry points share.
GemmCall Call(const char* name, cublasOperation_t transa, cublasOperation_t transb,
              int64_t m, int64_t n, int64_t k, const void* alpha, const void* beta,
              cublasComputeType_t compute) {
  GemmCall call;
  call.name = name;
  call.transa = transa;
  call.transb = transb;
  call.m = m;
  call.n = n;
  call.k = k;
  call.alpha = alpha;
  call.beta = beta;
  call.compute = compute;
  return call;
}

cublasComputeType_t ComputeTypeFor(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_16F:
      return CUBLAS_COMPUTE_16F;
    case CUDA_R_64F:
      return CUBLAS_COMPUTE_64F;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

}  // namespace

// --- Types given by the call
// -----------------------------------------------------------
#define GEMM_EX(entry, Int)                                                            \
  CUBLAS_ENTRY entry(                                                                  \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,       \
      Int m, Int n, Int k, const void* alpha, const void* a, cudaDataType a_type,      \
      Int lda, const void* b, cudaDataType b_type, Int ldb, const void* beta, void* c, \
      cudaDataType c_type, Int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {   \
    GemmCall call = Call(#entry, transa, transb, m, n, k, alpha, beta, compute);       \
    call.a = {a, a_type, lda};                                                         \
    call.b = {b, b_type, ldb};                                                         \
    call.c = {c, c_type, ldc};                                                         \
    return RunGemm(handle, call);                                                      \
  }
GEMM_EX(cublasGemmEx, int)
GEMM_EX(cublasGemmEx_64, int64_t)

#define GEMM_STRIDED_EX(entry, Int)                                                   \
  CUBLAS_ENTRY entry(                                                                 \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,      \
      Int m, Int n, Int k, const void* alpha, const void* a, cudaDataType a_type,     \
      Int lda, long long stride_a, const void* b, cudaDataType b_type, Int ldb,       \
      long long stride_b, const void* beta, void* c, cudaDataType c_type, Int ldc,    \
      long long stride_c, Int batch, cublasComputeType_t compute, cublasGemmAlgo_t) { \
    GemmCall call = Call(#entry, transa, transb, m, n, k, alpha, beta, compute);      \
    call.a = {a, a_type, lda, stride_a};                                              \
    call.b = {b, b_type, ldb, stride_b};                                              \
    call.c = {c, c_type, ldc, stride_c};                                              \
    call.batch = batch;                                                               \
    return RunGemm(handle, call);                                                     \
  }
GEMM_STRIDED_EX(cublasGemmStridedBatchedEx, int)
GEMM_STRIDED_EX(cublasGemmStridedBatchedEx_64, int64_t)

#define GEMM_BATCHED_EX(entry, Int)                                                    \
  CUBLAS_ENTRY entry(cublasHandle_t handle, cublasOperation_t transa,                  \
                     cublasOperation_t transb, Int m, Int n, Int k, const void* alpha, \
                     const void* const a[], cudaDataType a_type, Int lda,              \
                     const void* const b[], cudaDataType b_type, Int ldb,              \
                     const void* beta, void* const c[], cudaDataType c_type, Int ldc,  \
                     Int batch, cublasComputeType_t compute, cublasGemmAlgo_t) {       \
    GemmCall call = Call(#entry, transa, transb, m, n, k, alpha, beta, compute);       \
    call.a = {a, a_type, lda};                                                         \
    call.b = {b, b_type, ldb};                                                         \
    call.c = {nullptr, c_type, ldc};                                                   \
    call.c_array = c;                                                                  \
    call.batch = batch;                                                                \
    return RunGemm(handle, call);                                                      \
  }
GEMM_BATCHED_EX(cublasGemmBatchedEx, int)
GEMM_BATCHED_EX(cublasGemmBatchedEx_64, int64_t)

// --- One type, given by the name
// -------------------------------------------------------
#define GEMM(entry, T, type, Int)                                                   \
  CUBLAS_ENTRY entry(cublasHandle_t handle, cublasOperation_t transa,               \
                     cublasOperation_t transb, Int m, Int n, Int k, const T* alpha, \
                     const T* a, Int lda, const T* b, Int ldb, const T* beta, T* c, \
                     Int ldc) {                                                     \
    GemmCall call =                                                                 \
        Call(#entry, transa, transb, m, n, k, alpha, beta, ComputeTypeFor(type));   \
    call.a = {a, type, lda};                                                        \
    call.b = {b, type, ldb};                                                        \
    call.c = {c, type, ldc};                                                        \
    return RunGemm(handle, call);                                                   \
  }
GEMM(cublasSgemm_v2, float, CUDA_R_32F, int)
GEMM(cublasDgemm_v2, double, CUDA_R_64F, int)
GEMM(cublasHgemm, __half, CUDA_R_16F, int)
GEMM(cublasSgemm_v2_64, float, CUDA_R_32F, int64_t)
GEMM(cublasDgemm_v2_64, double, CUDA_R_64F, int64_t)
GEMM(cublasHgemm_64, __half, CUDA_R_16F, int64_t)

#define GEMM_STRIDED(entry, T, type, Int)                                           \
  CUBLAS_ENTRY entry(cublasHandle_t handle, cublasOperation_t transa,               \
                     cublasOperation_t transb, Int m, Int n, Int k, const T* alpha, \
                     const T* a, Int lda, long long stride_a, const T* b, Int ldb,  \
                     long long stride_b, const T* beta, T* c, Int ldc,              \
                     long long stride_c, Int batch) {                               \
    GemmCall call =                                                                 \
        Call(#entry, transa, transb, m, n, k, alpha, beta, ComputeTypeFor(type));   \
    call.a = {a, type, lda, stride_a};                                              \
    call.b = {b, type, ldb, stride_b};                                              \
    call.c = {c, type, ldc, stride_c};                                              \
    call.batch = batch;                                                             \
    return RunGemm(handle, call);                                                   \
  }
GEMM_STRIDED(cublasSgemmStridedBatched, float, CUDA_R_32F, int)
GEMM_STRIDED(cublasDgemmStridedBatched, double, CUDA_R_64F, int)
GEMM_STRIDED(cublasHgemmStridedBatched, __half, CUDA_R_16F, int)
GEMM_STRIDED(cublasSgemmStridedBatched_64, float, CUDA_R_32F, int64_t)
GEMM_STRIDED(cublasDgemmStridedBatched_64, double, CUDA_R_64F, int64_t)
GEMM_STRIDED(cublasHgemmStridedBatched_64, __half, CUDA_R_16F, int64_t)

#define GEMM_BATCHED(entry, T, type, Int)                                           \
  CUBLAS_ENTRY entry(cublasHandle_t handle, cublasOperation_t transa,               \
                     cublasOperation_t transb, Int m, Int n, Int k, const T* alpha, \
                     const T* const a[], Int lda, const T* const b[], Int ldb,      \
                     const T* beta, T* const c[], Int ldc, Int batch) {             \
    GemmCall call =                                                                 \
        Call(#entry, transa, transb, m, n, k, alpha, beta, ComputeTypeFor(type));   \
    call.a = {a, type, lda};                                                        \
    call.b = {b, type, ldb};                                                        \
    call.c = {nullptr, type, ldc};                                                  \
    call.c_array = reinterpret_cast<const void* const*>(c);                         \
    call.batch = batch;                                                             \
    return RunGemm(handle, call);                                                   \
  }
GEMM_BATCHED(cublasSgemmBatched, float, CUDA_R_32F, int)
GEMM_BATCHED(cublasDgemmBatched, double, CUDA_R_64F, int)
GEMM_BATCHED(cublasHgemmBatched, __half, CUDA_R_16F, int)
GEMM_BATCHED(cublasSgemmBatched_64, float, CUDA_R_32F, int64_t)
GEMM_BATCHED(cublasDgemmBatched_64, double, CUDA_R_64F, int64_t)
GEMM_BATCHED(cublasHgemmBatched_64, __half, CUDA_R_16F, int64_t)
