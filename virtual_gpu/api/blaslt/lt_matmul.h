// D = alpha op(A) op(B) + beta C with the descriptors of cublasLt.
//
// Thread rule: may be called from any thread.

#ifndef VRANK_VIRTUAL_GPU_API_BLASLT_LT_MATMUL_H_
#define VRANK_VIRTUAL_GPU_API_BLASLT_LT_MATMUL_H_

#include "virtual_gpu/api/blaslt/lt_descriptors.h"

namespace vrank::gpu {

struct LtProblem {
  const MatmulFields* operation = nullptr;
  const LayoutFields* a = nullptr;
  const LayoutFields* b = nullptr;
  const LayoutFields* c = nullptr;  // may be d
  const LayoutFields* d = nullptr;
};

struct LtOperands {
  const void* alpha = nullptr;
  const void* beta = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
};

// CUBLAS_STATUS_INVALID_VALUE where the descriptors contradict each other,
// CUBLAS_STATUS_NOT_SUPPORTED (said once) for forms without a model.
cublasStatus_t CheckProblem(const LtProblem& problem);

cublasStatus_t LaunchMatmul(const LtProblem& problem, const LtOperands& operands,
                            void* stream);

// How often 128x128 tiles of D fill the GPU:
// cublasLtMatmulHeuristicResult_t::wavesCount.
float Waves(const LayoutFields& d);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_API_BLASLT_LT_MATMUL_H_
