// Cross-entropy over a vocabulary that is spread over the tensor-parallel ranks.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void cross_entropy_max(float* row_max, const bf16* logits, int columns) {
  const long long row = blockIdx.x;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    largest = fmaxf(largest, ToFloat(logits[row * columns + c]));
  }
  largest = BlockReduce(largest, Max());
  if (threadIdx.x == 0) {
    row_max[row] = largest;
  }
}

__global__ void cross_entropy_sums(float* sums, const bf16* logits,
                                   const float* row_max, const int* labels, int rows,
                                   int columns, int first_token) {
  const long long row = blockIdx.x;
  const float largest = row_max[row];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    sum += __expf(ToFloat(logits[row * columns + c]) - largest);
  }
  sum = BlockReduce(sum, Add());
  if (threadIdx.x == 0) {
    const int label = labels[row] - first_token;
    const bool here = label >= 0 && label < columns;
    sums[row] = sum;
    sums[rows + row] = here ? ToFloat(logits[row * columns + label]) - largest : 0.0f;
  }
}

// One block: the sum has a fixed order.
__global__ void cross_entropy_loss(float* loss, const float* sums, int rows,
                                   float scale) {
  float sum = 0.0f;
  for (int row = threadIdx.x; row < rows; row += kBlockThreads) {
    sum += logf(sums[row]) - sums[rows + row];
  }
  sum = BlockReduce(sum, Add());
  if (threadIdx.x == 0) {
    *loss += scale * sum;
  }
}

__global__ void cross_entropy_backward(bf16* logits, const float* row_max,
                                       const float* sums, const int* labels,
                                       int columns, int first_token, float scale) {
  const long long row = blockIdx.x;
  const float largest = row_max[row];
  const float inverse = 1.0f / sums[row];
  const int label = labels[row] - first_token;
  bf16* line = logits + row * columns;
  for (int c = threadIdx.x; c < columns; c += kBlockThreads) {
    const float probability = __expf(ToFloat(line[c]) - largest) * inverse;
    line[c] = ToBf16(scale * (probability - (c == label ? 1.0f : 0.0f)));
  }
}

void CrossEntropyMax(float* row_max, const bf16* logits, int rows, int columns,
                     cudaStream_t stream) {
  cross_entropy_max<<<rows, kBlockThreads, 0, stream>>>(row_max, logits, columns);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void CrossEntropySums(float* sums, const bf16* logits, const float* row_max,
                      const int* labels, int rows, int columns, int first_token,
                      cudaStream_t stream) {
  cross_entropy_sums<<<rows, kBlockThreads, 0, stream>>>(sums, logits, row_max, labels,
                                                         rows, columns, first_token);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void CrossEntropyLoss(float* loss, const float* sums, int rows, float scale,
                      cudaStream_t stream) {
  cross_entropy_loss<<<1, kBlockThreads, 0, stream>>>(loss, sums, rows, scale);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void CrossEntropyBackward(bf16* logits, const float* row_max, const float* sums,
                          const int* labels, int rows, int columns, int first_token,
                          float scale, cudaStream_t stream) {
  cross_entropy_backward<<<rows, kBlockThreads, 0, stream>>>(
      logits, row_max, sums, labels, columns, first_token, scale);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
