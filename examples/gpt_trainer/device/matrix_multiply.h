// Matrix products, in row-major terms: bf16 by cuBLAS, or fp32 on the host.
//
// One library handle on one stream with a workspace of its own. Products accumulate in
// fp32; the result is an element, or fp32 for weight gradients, which are added up over
// micro-batches.

#ifndef EXAMPLES_GPT_TRAINER_DEVICE_MATRIX_MULTIPLY_H_
#define EXAMPLES_GPT_TRAINER_DEVICE_MATRIX_MULTIPLY_H_

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/device/device.h"

namespace gpt {

// An operand of a batched product: matrix i starts at data + i * stride; rows are
// `leading` elements apart.
struct BatchedOperand {
  const Element* data;
  int leading;
  long long stride;
  bool transposed = false;
};
struct BatchedResult {
  Element* data;
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

  MatrixMultiply(CachingAllocator& allocator, StreamHandle stream);
  ~MatrixMultiply();
  MatrixMultiply(const MatrixMultiply&) = delete;
  MatrixMultiply& operator=(const MatrixMultiply&) = delete;

  // The three products of a linear layer y = x w^T with w: [outputs, inputs].
  // y[rows, outputs] = x[rows, inputs] w^T
  void Forward(Element* y, const Element* x, const Element* w, int rows, int inputs,
               int outputs) const;
  // dx[rows, inputs] = dy[rows, outputs] w
  void InputGradient(Element* dx, const Element* dy, const Element* w, int rows,
                     int inputs, int outputs) const;
  // dw[outputs, inputs] += dy^T x
  void WeightGradient(float* dw, const Element* dy, const Element* x, int rows,
                      int inputs, int outputs) const;

  // c = alpha * op(a) op(b) for each matrix of the batch, op(a): [m, k], op(b): [k, n].
  void Batched(const BatchedSize& size, float alpha, const BatchedOperand& a,
               const BatchedOperand& b, const BatchedResult& c) const;

 private:
  DeviceArray<char> workspace_;
  StreamHandle stream_;
  MultiplyHandle handle_{};
};

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_DEVICE_MATRIX_MULTIPLY_H_
