// libcublas: products of a matrix and a vector, and of two vectors, as products of
// matrices of one row. A vector with increment `inc` is a row whose columns lie `inc`
// elements apart.

#include <atomic>

#include "base/guest/export.h"
#include "base/guest/refuse.h"
#include "virtual_gpu/api/blas/blas_handle.h"
#include "virtual_gpu/api/gemm/blas_status.h"

#define CUBLAS_ENTRY extern "C" VRANK_EXPORT cublasStatus_t

namespace {

using vrank::gpu::GemmCall;
using vrank::gpu::RunGemm;

cublasStatus_t Refuse(const char* what, std::atomic<bool>* said) {
  vrank::RefuseCall(vrank::gpu::kBlasLibrary, what, vrank::gpu::kCompatTable, said);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

// Increments of zero are invalid for what is written; negative ones run backwards.
cublasStatus_t CheckIncrements(int64_t incx, int64_t incy) {
  static std::atomic<bool> said;
  if (incx == 0 || incy == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  return incx < 0 || incy < 0
             ? Refuse("a product of vectors with negative increments", &said)
             : CUBLAS_STATUS_SUCCESS;
}

// y = alpha op(A) x + beta y, A of m rows and n columns.
cublasStatus_t Gemv(cublasHandle_t handle, const char* name, cudaDataType_t type,
                    cublasComputeType_t compute, cublasOperation_t trans, int64_t m,
                    int64_t n, const void* alpha, const void* a, int64_t lda,
                    const void* x, int64_t incx, const void* beta, void* y,
                    int64_t incy) {
  if (cublasStatus_t status = CheckIncrements(incx, incy);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  const bool transposed = trans != CUBLAS_OP_N;
  GemmCall call;
  call.name = name;
  call.transb = transposed ? CUBLAS_OP_N : CUBLAS_OP_T;
  call.m = 1;
  call.n = transposed ? n : m;
  call.k = transposed ? m : n;
  call.alpha = alpha;
  call.beta = beta;
  call.compute = compute;
  call.a = {x, type, incx};
  call.b = {a, type, lda};
  call.c = {y, type, incy};
  return RunGemm(handle, call);
}

// Where the result belongs on the host, the call would have to wait for it.
cublasStatus_t Dot(cublasHandle_t handle, const char* name, cudaDataType_t type,
                   cudaDataType_t result_type, cublasComputeType_t compute, int64_t n,
                   const void* x, int64_t incx, const void* y, int64_t incy,
                   void* result) {
  static const double kOne = 1, kZero = 0;
  static const float kFloatOne = 1, kFloatZero = 0;
  static std::atomic<bool> said;
  cublasPointerMode_t mode;
  if (cublasStatus_t status = cublasGetPointerMode(handle, &mode);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (cublasStatus_t status = CheckIncrements(incx, incy);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (mode == CUBLAS_POINTER_MODE_HOST)
    return Refuse("a dot product whose result goes to the host", &said);
  const bool is_double = compute == CUBLAS_COMPUTE_64F;
  GemmCall call;
  call.name = name;
  call.transb = CUBLAS_OP_T;
  call.m = call.n = 1;
  call.k = n;
  call.alpha = is_double ? static_cast<const void*>(&kOne) : &kFloatOne;
  call.beta = is_double ? static_cast<const void*>(&kZero) : &kFloatZero;
  call.own_scalars = true;
  call.compute = compute;
  call.a = {x, type, incx};
  call.b = {y, type, incy};
  call.c = {result, result_type, 1};
  return RunGemm(handle, call);
}

}  // namespace

#define GEMV(entry, T, type, compute, Int)                                          \
  CUBLAS_ENTRY entry(cublasHandle_t handle, cublasOperation_t trans, Int m, Int n,  \
                     const T* alpha, const T* a, Int lda, const T* x, Int incx,     \
                     const T* beta, T* y, Int incy) {                               \
    return Gemv(handle, #entry, type, compute, trans, m, n, alpha, a, lda, x, incx, \
                beta, y, incy);                                                     \
  }
GEMV(cublasSgemv_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, int)
GEMV(cublasSgemv_v2_64, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, int64_t)
GEMV(cublasDgemv_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, int)
GEMV(cublasDgemv_v2_64, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, int64_t)

#define DOT(entry, T, type, compute, Int)                                            \
  CUBLAS_ENTRY entry(cublasHandle_t handle, Int n, const T* x, Int incx, const T* y, \
                     Int incy, T* result) {                                          \
    return Dot(handle, #entry, type, type, compute, n, x, incx, y, incy, result);    \
  }
DOT(cublasSdot_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, int)
DOT(cublasSdot_v2_64, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, int64_t)
DOT(cublasDdot_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, int)
DOT(cublasDdot_v2_64, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, int64_t)

CUBLAS_ENTRY cublasDotEx(cublasHandle_t handle, int n, const void* x,
                         cudaDataType x_type, int incx, const void* y,
                         cudaDataType y_type, int incy, void* result,
                         cudaDataType result_type, cudaDataType execution_type) {
  static std::atomic<bool> said;
  if (x_type != y_type ||
      (execution_type != CUDA_R_32F && execution_type != CUDA_R_64F))
    return Refuse("a dot product of this combination of types", &said);
  return Dot(handle, "cublasDotEx", x_type, result_type,
             execution_type == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, n,
             x, incx, y, incy, result);
}
