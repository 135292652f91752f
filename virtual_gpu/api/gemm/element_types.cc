#include "virtual_gpu/api/gemm/element_types.h"

namespace vrank::gpu {

using protocol::ElementType;

std::optional<ElementType> FindElementType(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_8I:
      return ElementType::kInt8;
    case CUDA_R_8U:
      return ElementType::kUint8;
    case CUDA_R_32I:
      return ElementType::kInt32;
    case CUDA_R_16F:
      return ElementType::kFloat16;
    case CUDA_R_16BF:
      return ElementType::kBfloat16;
    case CUDA_R_32F:
      return ElementType::kFloat32;
    case CUDA_R_64F:
      return ElementType::kFloat64;
    case CUDA_R_8F_E4M3:
      return ElementType::kFloat8E4M3;
    case CUDA_R_8F_E5M2:
      return ElementType::kFloat8E5M2;
    default:
      return std::nullopt;
  }
}

uint32_t ElementBytes(cudaDataType_t type) {
  const std::optional<ElementType> element = FindElementType(type);
  if (!element)
    return 0;
  switch (*element) {
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
      return 8;
    default:
      return 1;
  }
}

std::optional<ElementType> FindComputeType(cublasComputeType_t type, bool tf32) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return ElementType::kFloat16;
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return ElementType::kBfloat16;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return ElementType::kTfloat32;
    case CUBLAS_COMPUTE_32F:
      return tf32 ? ElementType::kTfloat32 : ElementType::kFloat32;
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return ElementType::kFloat32;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return ElementType::kFloat64;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return ElementType::kInt32;
    default:
      return std::nullopt;
  }
}

cudaDataType_t ScaleTypeOf(cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return CUDA_R_16F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return CUDA_R_32I;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

bool SupportsGemmEx(cublasComputeType_t compute, cudaDataType_t a, cudaDataType_t b,
                    cudaDataType_t c) {
  if (a != b)
    return false;
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return a == CUDA_R_16F && c == CUDA_R_16F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return a == CUDA_R_8I && c == CUDA_R_32I;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      if (c == CUDA_R_32F)
        return a == CUDA_R_32F || a == CUDA_R_16F || a == CUDA_R_16BF || a == CUDA_R_8I;
      return a == c && (a == CUDA_R_16F || a == CUDA_R_16BF);
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return a == CUDA_R_32F && c == CUDA_R_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return a == CUDA_R_64F && c == CUDA_R_64F;
    default:
      return false;
  }
}

}  // namespace vrank::gpu
