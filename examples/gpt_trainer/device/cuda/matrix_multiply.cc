// cuBLAS is column-major: a row-major [r, c] array is its [c, r] matrix. So the
// row-major product c = a b is computed as c^T = b^T a^T: operands swap places, nothing
// is copied.

#include "examples/gpt_trainer/device/matrix_multiply.h"

#include "examples/gpt_trainer/device/cuda/cuda_checks.h"

namespace gpt {
namespace {

constexpr cublasOperation_t Operation(bool transposed) {
  return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

MatrixMultiply::MatrixMultiply(CachingAllocator& allocator, StreamHandle stream)
    : workspace_(allocator, kWorkspaceBytes), stream_(stream) {
  GPT_CHECK_CUBLAS(cublasCreate(&handle_));
  GPT_CHECK_CUBLAS(cublasSetStream(handle_, stream_));
  GPT_CHECK_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), kWorkspaceBytes));
}

MatrixMultiply::~MatrixMultiply() {
  GPT_CHECK_CUBLAS(cublasDestroy(handle_));
}

void MatrixMultiply::Forward(Element* y, const Element* x, const Element* w, int rows,
                             int inputs, int outputs) const {
  const float alpha = 1.0f;
  const float beta = 0.0f;
  GPT_CHECK_CUBLAS(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, outputs, rows,
                                inputs, &alpha, w, CUDA_R_16BF, inputs, x, CUDA_R_16BF,
                                inputs, &beta, y, CUDA_R_16BF, outputs,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void MatrixMultiply::InputGradient(Element* dx, const Element* dy, const Element* w,
                                   int rows, int inputs, int outputs) const {
  const float alpha = 1.0f;
  const float beta = 0.0f;
  GPT_CHECK_CUBLAS(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, inputs, rows,
                                outputs, &alpha, w, CUDA_R_16BF, inputs, dy,
                                CUDA_R_16BF, outputs, &beta, dx, CUDA_R_16BF, inputs,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void MatrixMultiply::WeightGradient(float* dw, const Element* dy, const Element* x,
                                    int rows, int inputs, int outputs) const {
  const float alpha = 1.0f;
  const float beta = 1.0f;
  GPT_CHECK_CUBLAS(cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs,
                                rows, &alpha, x, CUDA_R_16BF, inputs, dy, CUDA_R_16BF,
                                outputs, &beta, dw, CUDA_R_32F, inputs,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void MatrixMultiply::Batched(const BatchedSize& size, float alpha,
                             const BatchedOperand& a, const BatchedOperand& b,
                             const BatchedResult& c) const {
  const float beta = 0.0f;
  GPT_CHECK_CUBLAS(cublasGemmStridedBatchedEx(
      handle_, Operation(b.transposed), Operation(a.transposed), size.n, size.m, size.k,
      &alpha, b.data, CUDA_R_16BF, b.leading, b.stride, a.data, CUDA_R_16BF, a.leading,
      a.stride, &beta, c.data, CUDA_R_16BF, c.leading, c.stride, size.batch,
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace gpt
