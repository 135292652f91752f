// Gradient norm and AdamW over fp32 shards.

#include "examples/gpt_trainer/kernels/kernels.h"
#include "kernel_tools.h"

namespace gpt {

GPT_KERNEL void square_sums(float* partial, const float* x, long long elements,
                            float weight) {
  Grid().SumOfBlock(
      elements, [&](long long i) { return x[i] * x[i]; },
      [&](long long block, float sum) { partial[block] = weight * sum; });
}

GPT_KERNEL void sum_partials(float* sum, const float* partial, int count) {
  const Block block;
  const float value = block.Sum(count, [&](int i) { return partial[i]; });
  block.Once([&] { *sum = value; });
}

GPT_KERNEL void adamw(Element* parameters, float* master, float* momentum,
                      float* variance, const float* gradients, long long elements,
                      float learning_rate, float beta1, float beta2, float epsilon,
                      float weight_decay, float correction1, float correction2,
                      float gradient_scale) {
  const AdamStep step{learning_rate, beta1,       beta2,       epsilon,
                      weight_decay,  correction1, correction2, gradient_scale};
  Grid().ForEach(elements, [&](long long i) {
    master[i] = AdamUpdate(master[i], &momentum[i], &variance[i], gradients[i], step);
    parameters[i] = ToElement(master[i]);
  });
}

void SquareSums(float* partial, const float* x, long long elements, float weight,
                StreamHandle stream) {
  LaunchBlocks(stream, kSquareSumBlocks, square_sums, partial, x, elements, weight);
}

void SumPartials(float* sum, const float* partial, int count, StreamHandle stream) {
  LaunchBlocks(stream, 1, sum_partials, sum, partial, count);
}

void AdamW(Element* parameters, const AdamState& state, const float* gradients,
           long long elements, const AdamStep& step, StreamHandle stream) {
  LaunchElements(stream, elements, adamw, parameters, state.master, state.momentum,
                 state.variance, gradients, elements, step.learning_rate, step.beta1,
                 step.beta2, step.epsilon, step.weight_decay, step.correction1,
                 step.correction2, step.gradient_scale);
}

}  // namespace gpt
