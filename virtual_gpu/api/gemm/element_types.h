// NVIDIA's names of element and compute types in the terms of the execution graph.
//
// Thread rule: pure functions.

#ifndef VRANK_VIRTUAL_GPU_API_GEMM_ELEMENT_TYPES_H_
#define VRANK_VIRTUAL_GPU_API_GEMM_ELEMENT_TYPES_H_

#include <cublas_api.h>

#include <cstdint>
#include <optional>

#include "base/guest/protocol.h"

namespace vrank::gpu {

// nullopt for types that are not modelled (complex, 4 and 6 bits, 16-bit integers).
std::optional<protocol::ElementType> FindElementType(cudaDataType_t type);

// 0 where FindElementType knows nothing.
uint32_t ElementBytes(cudaDataType_t type);

// The type whose arithmetic units do the work. `tf32` is the handle's math mode, which
// lets float products use TF32.
std::optional<protocol::ElementType> FindComputeType(cublasComputeType_t type,
                                                     bool tf32);

// The type of alpha and beta that belongs to a compute type, where the call does not
// say one (cublasGemmEx, table of "scale type").
cudaDataType_t ScaleTypeOf(cublasComputeType_t type);

// Whether cublasGemmEx documents this combination.
bool SupportsGemmEx(cublasComputeType_t compute, cudaDataType_t a, cudaDataType_t b,
                    cudaDataType_t c);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_GEMM_ELEMENT_TYPES_H_
