// libcublas: handles and their settings.

#include "base/guest/export.h"
#include "virtual_gpu/api/blas/blas_handle.h"
#include "virtual_gpu/api/gpu_access.h"

#define CUBLAS_ENTRY extern "C" VRANK_EXPORT cublasStatus_t

namespace {

using vrank::gpu::IsHandle;

// Getters and setters of one field.
template <typename T>
cublasStatus_t Get(cublasHandle_t handle, T cublasContext::*field, T* value) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (value == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  vrank::gpu::SpendAttribute();
  *value = handle->*field;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t Set(cublasHandle_t handle, T cublasContext::*field, T value,
                   bool valid) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!valid)
    return CUBLAS_STATUS_INVALID_VALUE;
  vrank::gpu::SpendAttribute();
  handle->*field = value;
  return CUBLAS_STATUS_SUCCESS;
}

bool IsMathMode(cublasMath_t mode) {
  const int base = mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  return base == CUBLAS_DEFAULT_MATH || base == CUBLAS_TENSOR_OP_MATH ||
         base == CUBLAS_PEDANTIC_MATH || base == CUBLAS_TF32_TENSOR_OP_MATH;
}

}  // namespace

CUBLAS_ENTRY cublasCreate_v2(cublasHandle_t* handle) {
  return vrank::gpu::CreateHandle(handle);
}

CUBLAS_ENTRY cublasDestroy_v2(cublasHandle_t handle) {
  return vrank::gpu::DestroyHandle(handle);
}

CUBLAS_ENTRY cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  if (handle != nullptr && !IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasGetProperty(libraryPropertyType type, int* value) {
  return vrank::gpu::GetLibraryProperty(type, value);
}

extern "C" VRANK_EXPORT size_t cublasGetCudartVersion() {
  return CUDART_VERSION;
}

CUBLAS_ENTRY cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return Set(handle, &cublasContext::stream, stream, true);
}

CUBLAS_ENTRY cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return Get(handle, &cublasContext::stream, stream);
}

// The program's workspace replaces the library's own, which cuBLAS keeps; nothing is
// written to either here.
CUBLAS_ENTRY cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                   size_t bytes) {
  if (!IsHandle(handle))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  if ((workspace == nullptr) != (bytes == 0) ||
      reinterpret_cast<uintptr_t>(workspace) % 256 != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  vrank::gpu::SpendAttribute();
  return CUBLAS_STATUS_SUCCESS;
}

CUBLAS_ENTRY cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return Set(handle, &cublasContext::pointer_mode, mode,
             mode == CUBLAS_POINTER_MODE_HOST || mode == CUBLAS_POINTER_MODE_DEVICE);
}

CUBLAS_ENTRY cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return Get(handle, &cublasContext::pointer_mode, mode);
}

CUBLAS_ENTRY cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return Set(handle, &cublasContext::math_mode, mode, IsMathMode(mode));
}

CUBLAS_ENTRY cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return Get(handle, &cublasContext::math_mode, mode);
}

CUBLAS_ENTRY cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return Set(handle, &cublasContext::atomics_mode, mode,
             mode == CUBLAS_ATOMICS_NOT_ALLOWED || mode == CUBLAS_ATOMICS_ALLOWED);
}

CUBLAS_ENTRY cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return Get(handle, &cublasContext::atomics_mode, mode);
}

CUBLAS_ENTRY cublasSetSmCountTarget(cublasHandle_t handle, int target) {
  return Set(handle, &cublasContext::sm_count_target, target, target >= 0);
}

CUBLAS_ENTRY cublasGetSmCountTarget(cublasHandle_t handle, int* target) {
  return Get(handle, &cublasContext::sm_count_target, target);
}

extern "C" VRANK_EXPORT const char* cublasGetStatusName(cublasStatus_t status) {
  return vrank::gpu::StatusName(status);
}

extern "C" VRANK_EXPORT const char* cublasGetStatusString(cublasStatus_t status) {
  return vrank::gpu::StatusText(status);
}
