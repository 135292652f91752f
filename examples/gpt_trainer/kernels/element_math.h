// The arithmetic of the model, element by element, for the GPU and for the CPU
// reference.
//
// Kernels add indexing and reductions; what a value *is* stands here, once.

#ifndef EXAMPLES_GPT_TRAINER_KERNELS_ELEMENT_MATH_H_
#define EXAMPLES_GPT_TRAINER_KERNELS_ELEMENT_MATH_H_

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define GPT_HOST_DEVICE __host__ __device__
#else
#define GPT_HOST_DEVICE
#endif

namespace gpt {

inline constexpr float kLayerNormEpsilon = 1e-5f;

// GELU in the tanh form of GPT-2: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
inline constexpr float kGeluScale = 0.7978845608f;  // sqrt(2/pi)
inline constexpr float kGeluCubic = 0.044715f;

GPT_HOST_DEVICE inline float Gelu(float x) {
  return 0.5f * x * (1.0f + tanhf(kGeluScale * (x + kGeluCubic * x * x * x)));
}

GPT_HOST_DEVICE inline float GeluDerivative(float x) {
  const float t = tanhf(kGeluScale * (x + kGeluCubic * x * x * x));
  const float inner = kGeluScale * (1.0f + 3.0f * kGeluCubic * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

GPT_HOST_DEVICE inline float Normalize(float x, float mean, float inverse_deviation,
                                       float weight, float bias) {
  return (x - mean) * inverse_deviation * weight + bias;
}

// SplitMix64 (Steele, Lea, Flood 2014): one value per counter, no state.
GPT_HOST_DEVICE inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A number of about normal distribution, variance 1: the sum of four 16-bit uniform
// numbers (variance 1/12 each). Only integers and one product, so that every machine
// gives the same bits.
GPT_HOST_DEVICE inline float RoughlyNormal(uint64_t seed, uint64_t tensor,
                                           uint64_t index) {
  const uint64_t bits = Mix(Mix(seed ^ (tensor << 48)) + index);
  const int sum = static_cast<int>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                   (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float kScale = 1.7320508076f / 65536.0f;  // sqrt(12 / 4) / 2^16
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

// AdamW with decoupled weight decay (Loshchilov, Hutter 2019), algorithm 2.
struct AdamStep {
  float learning_rate;
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  float correction1;     // 1 - beta1^step
  float correction2;     // 1 - beta2^step
  float gradient_scale;  // clipping
};

GPT_HOST_DEVICE inline float AdamUpdate(float master, float* momentum, float* variance,
                                        float gradient, const AdamStep& step) {
  const float g = gradient * step.gradient_scale;
  *momentum = step.beta1 * *momentum + (1.0f - step.beta1) * g;
  *variance = step.beta2 * *variance + (1.0f - step.beta2) * g * g;
  const float direction = (*momentum / step.correction1) /
                          (sqrtf(*variance / step.correction2) + step.epsilon);
  return master - step.learning_rate * (direction + step.weight_decay * master);
}

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_KERNELS_ELEMENT_MATH_H_
