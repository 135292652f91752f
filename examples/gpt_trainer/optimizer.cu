// Gradient norm and AdamW over fp32 shards.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void square_sums(float* partial, const float* x, long long elements,
                            float weight) {
  float sum = 0.0f;
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    sum += x[i] * x[i];
  }
  sum = BlockReduce(sum, Add());
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = weight * sum;
  }
}

__global__ void sum_partials(float* sum, const float* partial, int count) {
  float value = 0.0f;
  for (int i = threadIdx.x; i < count; i += kBlockThreads) {
    value += partial[i];
  }
  value = BlockReduce(value, Add());
  if (threadIdx.x == 0) {
    *sum = value;
  }
}

__global__ void adamw(bf16* parameters, float* master, float* momentum, float* variance,
                      const float* gradients, long long elements, float learning_rate,
                      float beta1, float beta2, float epsilon, float weight_decay,
                      float correction1, float correction2, float gradient_scale) {
  const AdamStep step{learning_rate, beta1,       beta2,       epsilon,
                      weight_decay,  correction1, correction2, gradient_scale};
  for (long long i = FirstElement(); i < elements; i += ElementStride()) {
    master[i] = AdamUpdate(master[i], &momentum[i], &variance[i], gradients[i], step);
    parameters[i] = ToBf16(master[i]);
  }
}

void SquareSums(float* partial, const float* x, long long elements, float weight,
                cudaStream_t stream) {
  square_sums<<<kSquareSumBlocks, kBlockThreads, 0, stream>>>(partial, x, elements,
                                                              weight);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void SumPartials(float* sum, const float* partial, int count, cudaStream_t stream) {
  sum_partials<<<1, kBlockThreads, 0, stream>>>(sum, partial, count);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void AdamW(bf16* parameters, const AdamState& state, const float* gradients,
           long long elements, const AdamStep& step, cudaStream_t stream) {
  adamw<<<ElementBlocks(elements), kBlockThreads, 0, stream>>>(
      parameters, state.master, state.momentum, state.variance, gradients, elements,
      step.learning_rate, step.beta1, step.beta2, step.epsilon, step.weight_decay,
      step.correction1, step.correction2, step.gradient_scale);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
