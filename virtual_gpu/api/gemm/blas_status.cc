#include "virtual_gpu/api/gemm/blas_status.h"

namespace vrank::gpu {
namespace {

struct Row {
  cublasStatus_t status;
  const char* name;
  const char* text;
};
#define ROW(name, text) \
  { name, #name, text }
constexpr Row kRows[] = {
    ROW(CUBLAS_STATUS_SUCCESS, "success"),
    ROW(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
    ROW(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
    ROW(CUBLAS_STATUS_INVALID_VALUE, "an invalid value was used as an argument"),
    ROW(CUBLAS_STATUS_ARCH_MISMATCH,
        "an absent device architectural feature is required"),
    ROW(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed"),
    ROW(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU"),
    ROW(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed"),
    ROW(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality is not supported"),
    ROW(CUBLAS_STATUS_LICENSE_ERROR, "the license check failed"),
};
#undef ROW

const Row* FindRow(cublasStatus_t status) {
  for (const Row& row : kRows) {
    if (row.status == status)
      return &row;
  }
  return nullptr;
}

}  // namespace

cublasStatus_t ToStatus(Error error) {
  switch (error) {
    case Error::kSuccess:
      return CUBLAS_STATUS_SUCCESS;
    case Error::kOutOfMemory:
      return CUBLAS_STATUS_ALLOC_FAILED;
    case Error::kNoDevice:
    case Error::kNotInitialized:
    case Error::kDevicesUnavailable:
      return CUBLAS_STATUS_NOT_INITIALIZED;
    case Error::kNotSupported:
      return CUBLAS_STATUS_NOT_SUPPORTED;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

const char* StatusName(cublasStatus_t status) {
  const Row* row = FindRow(status);
  return row != nullptr ? row->name : "unknown error";
}

const char* StatusText(cublasStatus_t status) {
  const Row* row = FindRow(status);
  return row != nullptr ? row->text : "unknown error";
}

cublasStatus_t GetLibraryProperty(libraryPropertyType type, int* value) {
  if (value == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  switch (type) {
    case MAJOR_VERSION:
      *value = CUBLAS_VER_MAJOR;
      return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUBLAS_VER_MINOR;
      return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUBLAS_VER_PATCH;
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

}  // namespace vrank::gpu
