// Biases, activation and residuals: one pass over memory each.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void add_bias(bf16* x, const bf16* bias, long long rows, int columns) {
  const long long elements = rows * columns;
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    x[i] = ToBf16(ToFloat(x[i]) + ToFloat(bias[i % columns]));
  }
}

__global__ void bias_gelu(bf16* y, bf16* x, const bf16* bias, long long rows,
                          int columns) {
  const long long elements = rows * columns;
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    const bf16 biased = ToBf16(ToFloat(x[i]) + ToFloat(bias[i % columns]));
    x[i] = biased;
    y[i] = ToBf16(Gelu(ToFloat(biased)));
  }
}

__global__ void gelu_backward(bf16* dx, const bf16* dy, const bf16* x,
                              long long elements) {
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    dx[i] = ToBf16(ToFloat(dy[i]) * GeluDerivative(ToFloat(x[i])));
  }
}

__global__ void bias_residual(bf16* y, const bf16* x, const bf16* bias,
                              const bf16* residual, long long rows, int columns) {
  const long long elements = rows * columns;
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    y[i] = ToBf16(ToFloat(x[i]) + ToFloat(bias[i % columns]) + ToFloat(residual[i]));
  }
}

// A block owns 32 columns and walks down the rows.
__global__ void bias_gradient(float* gradient, const bf16* x, int rows, int columns) {
  __shared__ float sums[kBlockWarps][kWarpThreads];
  const int column = blockIdx.x * kWarpThreads + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
    for (int row = threadIdx.y; row < rows; row += kBlockWarps) {
      sum += ToFloat(x[1LL * row * columns + column]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    for (int lane = 1; lane < kBlockWarps; ++lane) {
      sum += sums[lane][threadIdx.x];
    }
    gradient[column] += sum;
  }
}

void AddBias(bf16* x, const bf16* bias, long long rows, int columns,
             cudaStream_t stream) {
  add_bias<<<ElementBlocks(rows * columns), kBlockThreads, 0, stream>>>(x, bias, rows,
                                                                        columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void BiasGelu(bf16* y, bf16* x, const bf16* bias, long long rows, int columns,
              cudaStream_t stream) {
  bias_gelu<<<ElementBlocks(rows * columns), kBlockThreads, 0, stream>>>(y, x, bias,
                                                                         rows, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void GeluBackward(bf16* dx, const bf16* dy, const bf16* x, long long elements,
                  cudaStream_t stream) {
  gelu_backward<<<ElementBlocks(elements), kBlockThreads, 0, stream>>>(dx, dy, x,
                                                                       elements);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void BiasResidual(bf16* y, const bf16* x, const bf16* bias, const bf16* residual,
                  long long rows, int columns, cudaStream_t stream) {
  bias_residual<<<ElementBlocks(rows * columns), kBlockThreads, 0, stream>>>(
      y, x, bias, residual, rows, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void BiasGradient(float* gradient, const bf16* x, int rows, int columns,
                  cudaStream_t stream) {
  const unsigned blocks = (columns + kWarpThreads - 1) / kWarpThreads;
  bias_gradient<<<blocks, dim3(kWarpThreads, kBlockWarps), 0, stream>>>(gradient, x,
                                                                        rows, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
