// libcublasLt: handles, the choice of an algorithm, the product itself.

#include <algorithm>
#include <new>

#include "base/guest/export.h"
#include "virtual_gpu/api/blaslt/lt_matmul.h"
#include "virtual_gpu/api/gemm/blas_status.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUBLASLT_ENTRY extern "C" VRANK_EXPORT cublasStatus_t

struct cublasLtContext {
  vrank::gpu::HandleTag tag;  // first: see HandleTag
};

namespace {

using vrank::gpu::AlgorithmFields;
using vrank::gpu::Fields;
using vrank::gpu::IsHandle;
using vrank::gpu::LtOperands;
using vrank::gpu::LtProblem;

// False where a descriptor is missing.
bool MakeProblem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                 cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                 cublasLtMatrixLayout_t d, LtProblem* problem) {
  *problem = {Fields(operation), Fields(a), Fields(b), Fields(c), Fields(d)};
  return operation != nullptr && a != nullptr && b != nullptr && c != nullptr &&
         d != nullptr;
}

void FillResult(const LtProblem& problem, cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  new (&result->algo) AlgorithmFields();
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = vrank::gpu::Waves(*problem.d);
}

}  // namespace

CUBLASLT_ENTRY cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  vrank::gpu::Gpu* gpu = vrank::gpu::FindGpu();
  if (gpu == nullptr)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  const int device = std::max(0, gpu->CurrentDevice());
  if (vrank::gpu::Error error = gpu->EnsureContext(device);
      error != vrank::gpu::Error::kSuccess)
    return vrank::gpu::ToStatus(error);
  gpu->channel()->Spend(vrank::HostCost::kCreate);
  *handle = new (std::nothrow) cublasLtContext;
  return *handle != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

CUBLASLT_ENTRY cublasLtDestroy(cublasLtHandle_t handle) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->tag.magic = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ENTRY cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t results[], int* returned) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  LtProblem problem;
  if (!MakeProblem(operation, a, b, c, d, &problem) || preference == nullptr ||
      requested <= 0 || results == nullptr || returned == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  vrank::gpu::SpendAttribute();
  const cublasStatus_t status = CheckProblem(problem);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  FillResult(problem, &results[0]);
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ENTRY cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t,
                                        cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                        cudaDataType_t, cudaDataType_t, int requested,
                                        int ids[], int* returned) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested <= 0 || ids == nullptr || returned == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  ids[0] = 0;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ENTRY cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algorithm == nullptr || id != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = {};
  new (algorithm) AlgorithmFields();
  return CUBLAS_STATUS_SUCCESS;
}

CUBLASLT_ENTRY cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  LtProblem problem;
  if (!MakeProblem(operation, a, b, c, d, &problem) || algorithm == nullptr ||
      result == nullptr || Fields(algorithm)->magic != AlgorithmFields::kValid)
    return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = CheckProblem(problem);
  if (status == CUBLAS_STATUS_SUCCESS)
    FillResult(problem, result);
  return status;
}

CUBLASLT_ENTRY cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D,
                              cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  LtProblem problem;
  if (!MakeProblem(operation, a, b, c, d, &problem) || alpha == nullptr ||
      A == nullptr || B == nullptr || D == nullptr ||
      (workspace == nullptr && workspace_bytes > 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm != nullptr && Fields(algorithm)->magic != AlgorithmFields::kValid)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = CheckProblem(problem); status != CUBLAS_STATUS_SUCCESS)
    return status;
  return LaunchMatmul(problem, LtOperands{alpha, beta, A, B, C, D}, stream);
}

CUBLASLT_ENTRY cublasLtGetProperty(libraryPropertyType type, int* value) {
  return vrank::gpu::GetLibraryProperty(type, value);
}

extern "C" VRANK_EXPORT size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}

extern "C" VRANK_EXPORT size_t cublasLtGetCudartVersion() {
  return CUDART_VERSION;
}

extern "C" VRANK_EXPORT const char* cublasLtGetStatusName(cublasStatus_t status) {
  return vrank::gpu::StatusName(status);
}

extern "C" VRANK_EXPORT const char* cublasLtGetStatusString(cublasStatus_t status) {
  return vrank::gpu::StatusText(status);
}
