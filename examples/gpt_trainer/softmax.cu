// Causal softmax over attention scores and its gradient, in place: a block per row.

#include "examples/gpt_trainer/kernel_tools.cuh"
#include "examples/gpt_trainer/kernels.h"

namespace gpt {

__global__ void causal_softmax(bf16* scores, int sequence) {
  const long long row = blockIdx.x;
  const int visible = static_cast<int>(row % sequence) + 1;
  bf16* line = scores + row * sequence;
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < visible; c += kBlockThreads) {
    largest = fmaxf(largest, ToFloat(line[c]));
  }
  largest = BlockReduce(largest, Max());
  float sum = 0.0f;
  for (int c = threadIdx.x; c < visible; c += kBlockThreads) {
    sum += __expf(ToFloat(line[c]) - largest);
  }
  const float inverse = 1.0f / BlockReduce(sum, Add());
  for (int c = threadIdx.x; c < sequence; c += kBlockThreads) {
    line[c] = c < visible ? ToBf16(__expf(ToFloat(line[c]) - largest) * inverse)
                          : ToBf16(0.0f);
  }
}

// ds = p * (dp - sum(p dp)).
__global__ void causal_softmax_backward(bf16* gradient, const bf16* probabilities,
                                        int sequence) {
  const long long row = blockIdx.x;
  const int visible = static_cast<int>(row % sequence) + 1;
  bf16* line = gradient + row * sequence;
  const bf16* p = probabilities + row * sequence;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < visible; c += kBlockThreads) {
    sum += ToFloat(p[c]) * ToFloat(line[c]);
  }
  sum = BlockReduce(sum, Add());
  for (int c = threadIdx.x; c < sequence; c += kBlockThreads) {
    line[c] =
        c < visible ? ToBf16(ToFloat(p[c]) * (ToFloat(line[c]) - sum)) : ToBf16(0.0f);
  }
}

void CausalSoftmax(bf16* scores, long long rows, int sequence, cudaStream_t stream) {
  causal_softmax<<<static_cast<unsigned>(rows), kBlockThreads, 0, stream>>>(scores,
                                                                            sequence);
  GPT_CHECK_CUDA(cudaGetLastError());
}

void CausalSoftmaxBackward(bf16* gradient, const bf16* probabilities, long long rows,
                           int sequence, cudaStream_t stream) {
  causal_softmax_backward<<<static_cast<unsigned>(rows), kBlockThreads, 0, stream>>>(
      gradient, probabilities, sequence);
  GPT_CHECK_CUDA(cudaGetLastError());
}

}  // namespace gpt
