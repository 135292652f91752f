// What the kernels share: block-wide reductions, launch geometry, bf16 conversion.

#ifndef EXAMPLES_GPT_TRAINER_KERNEL_TOOLS_CUH_
#define EXAMPLES_GPT_TRAINER_KERNEL_TOOLS_CUH_

#include <cuda_bf16.h>

#include <algorithm>

#include "examples/gpt_trainer/checks.h"

namespace gpt {

inline constexpr int kBlockThreads = 256;
inline constexpr int kWarpThreads = 32;
inline constexpr int kBlockWarps = kBlockThreads / kWarpThreads;

__device__ inline float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ inline __nv_bfloat16 ToBf16(float x) {
  return __float2bfloat16(x);
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces one value per thread over the block; every thread gets the result.
// REQUIRES: blockDim.x == kBlockThreads, all threads call.
template <typename Operation>
__device__ inline float BlockReduce(float value, Operation operation) {
  __shared__ float warp_values[kBlockWarps];
  for (int offset = kWarpThreads / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffff, value, offset));
  }
  __syncthreads();  // warp_values may still be read from the previous call
  if (threadIdx.x % kWarpThreads == 0) {
    warp_values[threadIdx.x / kWarpThreads] = value;
  }
  __syncthreads();
  value = warp_values[0];
  for (int warp = 1; warp < kBlockWarps; ++warp) {
    value = operation(value, warp_values[warp]);
  }
  return value;
}

// Blocks for one thread per element; loops take the rest where there are more.
inline unsigned ElementBlocks(long long elements) {
  constexpr long long kMostBlocks = 1 << 20;
  const long long blocks = (elements + kBlockThreads - 1) / kBlockThreads;
  return static_cast<unsigned>(std::clamp<long long>(blocks, 1, kMostBlocks));
}

__device__ inline long long FirstElement() {
  return 1LL * blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ inline long long ElementStride() {
  return 1LL * gridDim.x * blockDim.x;
}

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_KERNEL_TOOLS_CUH_
