// bf16 matrix products by cuBLAS, in row-major terms.
//
// One cuBLAS handle on one stream with a workspace of its own. Products accumulate in
// fp32; the result is bf16, or fp32 for weight gradients, which are added up over
// micro-batches.

#ifndef EXAMPLES_GPT_TRAINER_MATRIX_MULTIPLY_H_
#define EXAMPLES_GPT_TRAINER_MATRIX_MULTIPLY_H_

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "examples/gpt_trainer/caching_allocator.h"

namespace gpt {

using bf16 = __nv_bfloat16;

// An operand of a batched product: matrix i starts at data + i * stride; rows are
// `leading` elements apart.
struct BatchedOperand {
  const bf16* data;
  int leading;
  long long stride;
  bool transposed = false;
};
struct BatchedResult {
  bf16* data;
  int leading;
  long long stride;
};
struct BatchedSize {
  int m, n, k, batch;
};

class MatrixMultiply {
 public:
  // NVIDIA's advice for Hopper (cuBLAS documentation, cublasSetWorkspace): 32 MiB.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  MatrixMultiply(CachingAllocator& allocator, cudaStream_t stream);
  ~MatrixMultiply();
  MatrixMultiply(const MatrixMultiply&) = delete;
  MatrixMultiply& operator=(const MatrixMultiply&) = delete;

  // The three products of a linear layer y = x w^T with w: [outputs, inputs].
  // y[rows, outputs] = x[rows, inputs] w^T
  void Forward(bf16* y, const bf16* x, const bf16* w, int rows, int inputs,
               int outputs) const;
  // dx[rows, inputs] = dy[rows, outputs] w
  void InputGradient(bf16* dx, const bf16* dy, const bf16* w, int rows, int inputs,
                     int outputs) const;
  // dw[outputs, inputs] += dy^T x
  void WeightGradient(float* dw, const bf16* dy, const bf16* x, int rows, int inputs,
                      int outputs) const;

  // c = alpha * op(a) op(b) for each matrix of the batch, op(a): [m, k], op(b): [k, n].
  void Batched(const BatchedSize& size, float alpha, const BatchedOperand& a,
               const BatchedOperand& b, const BatchedResult& c) const;

 private:
  DeviceArray<char> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_MATRIX_MULTIPLY_H_
