// What libcublas and libcublasLt have in common besides types: handles and statuses.
//
// Thread rule: pure functions and plain values.

#ifndef VRANK_VIRTUAL_GPU_API_GEMM_BLAS_STATUS_H_
#define VRANK_VIRTUAL_GPU_API_GEMM_BLAS_STATUS_H_

#include <cublas_api.h>

#include <cstdint>

#include "virtual_gpu/core/error.h"

namespace vrank::gpu {

// For messages.
#define VRANK_TEXT_OF(number) #number
#define VRANK_SONAME(name, major) name ".so." VRANK_TEXT_OF(major)
inline constexpr const char* kBlasLibrary = VRANK_SONAME("libcublas", CUBLAS_VER_MAJOR);
inline constexpr const char* kBlasLtLibrary =
    VRANK_SONAME("libcublasLt", CUBLAS_VER_MAJOR);
#undef VRANK_SONAME
#undef VRANK_TEXT_OF
inline constexpr const char* kCompatTable = "docs/cuda_compat.md";

// First member of both libraries' handles: a cublasHandle_t may be used wherever a
// cublasLtHandle_t is asked for (cuBLAS documentation, "cublasLtHandle_t").
struct HandleTag {
  static constexpr uint64_t kValid = 0x76724861'6e646c65;
  uint64_t magic = kValid;
};

inline bool IsHandle(const void* handle) {
  return handle != nullptr &&
         static_cast<const HandleTag*>(handle)->magic == HandleTag::kValid;
}

cublasStatus_t ToStatus(Error error);

// cublasGetStatusName and cublasGetStatusString.
const char* StatusName(cublasStatus_t status);
const char* StatusText(cublasStatus_t status);

// cublasGetProperty: major, minor or patch number of the cuBLAS that is stood in for.
cublasStatus_t GetLibraryProperty(libraryPropertyType type, int* value);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_GEMM_BLAS_STATUS_H_
