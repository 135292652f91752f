// Layer normalisation: a block per row, except for the parameter gradients, where a
// block owns 32 columns and walks down the rows.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void layer_norm_forward(bf16* y, float* mean, float* inverse_deviation,
                                   const bf16* x, const bf16* weight, const bf16* bias,
                                   int columns) {
  const long long row = blockIdx.x;
  const bf16* in = x + row * columns;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    sum += ToFloat(in[c]);
  }
  const float row_mean = BlockReduce(sum, Add()) / columns;
  float squares = 0.0f;  // second pass: no cancellation
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    const float distance = ToFloat(in[c]) - row_mean;
    squares += distance * distance;
  }
  const float row_inverse =
      rsqrtf(BlockReduce(squares, Add()) / columns + kLayerNormEpsilon);
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    y[row * columns + c] = ToBf16(Normalize(ToFloat(in[c]), row_mean, row_inverse,
                                            ToFloat(weight[c]), ToFloat(bias[c])));
  }
  if (threadIdx.x == 0) {
    mean[row] = row_mean;
    inverse_deviation[row] = row_inverse;
  }
}

// With n = normalized x and g = dy * weight: dx = (g - mean(g) - n mean(g n)) /
// deviation.
__global__ void layer_norm_backward(bf16* dx, const bf16* dy, const bf16* x,
                                    const float* mean, const float* inverse_deviation,
                                    const bf16* weight, const bf16* residual,
                                    int columns) {
  const long long row = blockIdx.x;
  const long long start = row * columns;
  const float row_mean = mean[row];
  const float row_inverse = inverse_deviation[row];
  float sum_g = 0.0f;
  float sum_gn = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    const float g = ToFloat(dy[start + c]) * ToFloat(weight[c]);
    sum_g += g;
    sum_gn += g * (ToFloat(x[start + c]) - row_mean) * row_inverse;
  }
  const float mean_g = BlockReduce(sum_g, Add()) / columns;
  const float mean_gn = BlockReduce(sum_gn, Add()) / columns;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    const float g = ToFloat(dy[start + c]) * ToFloat(weight[c]);
    const float n = (ToFloat(x[start + c]) - row_mean) * row_inverse;
    const float passed_by = residual == nullptr ? 0.0f : ToFloat(residual[start + c]);
    dx[start + c] = ToBf16((g - mean_g - n * mean_gn) * row_inverse + passed_by);
  }
}

__global__ void layer_norm_parameter_gradients(float* weight_gradient,
                                               float* bias_gradient, const bf16* dy,
                                               const bf16* x, const float* mean,
                                               const float* inverse_deviation, int rows,
                                               int columns) {
  __shared__ float weight_sums[kBlockWarps][kWarpThreads];
  __shared__ float bias_sums[kBlockWarps][kWarpThreads];
  const int column = blockIdx.x * kWarpThreads + threadIdx.x;
  float weight_sum = 0.0f;
  float bias_sum = 0.0f;
  if (column < columns) {
    for (int row = threadIdx.y; row < rows; row += kBlockWarps) {
      const long long at = 1LL * row * columns + column;
      const float g = ToFloat(dy[at]);
      weight_sum += g * (ToFloat(x[at]) - mean[row]) * inverse_deviation[row];
      bias_sum += g;
    }
  }
  weight_sums[threadIdx.y][threadIdx.x] = weight_sum;
  bias_sums[threadIdx.y][threadIdx.x] = bias_sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    for (int lane = 1; lane < kBlockWarps; ++lane) {
      weight_sum += weight_sums[lane][threadIdx.x];
      bias_sum += bias_sums[lane][threadIdx.x];
    }
    weight_gradient[column] += weight_sum;
    bias_gradient[column] += bias_sum;
  }
}

void LayerNormForward(bf16* y, float* mean, float* inverse_deviation, const bf16* x,
                      const bf16* weight, const bf16* bias, int rows, int columns,
                      cudaStream_t stream) {
  layer_norm_forward<<<rows, kBlockThreads, 0, stream>>>(y, mean, inverse_deviation, x,
                                                         weight, bias, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void LayerNormBackward(bf16* dx, const bf16* dy, const LayerNormSaved& saved,
                       const bf16* weight, const bf16* residual, int rows, int columns,
                       cudaStream_t stream) {
  layer_norm_backward<<<rows, kBlockThreads, 0, stream>>>(
      dx, dy, saved.x, saved.mean, saved.inverse_deviation, weight, residual, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void LayerNormParameterGradients(float* weight_gradient, float* bias_gradient,
                                 const bf16* dy, const LayerNormSaved& saved, int rows,
                                 int columns, cudaStream_t stream) {
  const unsigned blocks = (columns + kWarpThreads - 1) / kWarpThreads;
  layer_norm_parameter_gradients<<<blocks, dim3(kWarpThreads, kBlockWarps), 0,
                                   stream>>>(weight_gradient, bias_gradient, dy,
                                             saved.x, saved.mean,
                                             saved.inverse_deviation, rows, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
