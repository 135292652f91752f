// Scaled dot-product attention, as cuDNN's frontend writes it: one operation, where
// nothing is masked; else a graph of two matrix products with a softmax between them,
// or of the five of its way back.
//
//     S = Q K^T, P = softmax(S), O = P V
//     dV = P^T dO, dP = dO V^T, dS = P (dP - sum(dO O)), dK = dS^T Q, dQ = dS K
//
// Thread rule: pure functions of descriptors that nobody changes meanwhile.

#ifndef VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_H_
#define VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "virtual_gpu/api/dnn/computation.h"
#include "virtual_gpu/api/dnn/descriptor.h"

namespace vrank::gpu::dnn {

struct Attention : Computation {
  bool backward = false;
  bool bfloat16 = false;  // else float16
  bool causal = false;
  bool dropout = false;
  bool bias = false;  // added to S, read from memory
  uint32_t batch = 0;
  uint32_t heads = 0, key_heads = 0;    // of Q; of K and V
  uint32_t queries = 0, keys = 0;       // lengths of sequences
  uint32_t width = 0, value_width = 0;  // elements per head of Q and K; of V

  // What the plan takes beside what the frontend itself adds for sums and accumulators.
  // Measured: H200, cuDNN 9.19, as PyTorch 2.11 allocates it.
  uint64_t WorkspaceBytes() const override;
  Error Launch(Gpu* gpu, void* stream, std::span<void* const> outputs,
               void* workspace) const override;
};

// Reads an operation graph. nullptr where it is something else, or another type than
// float16 and bfloat16; `why` then says what it is.
std::shared_ptr<const Attention> ReadAttention(const Descriptor& graph,
                                               std::string* why);

}  // namespace vrank::gpu::dnn

#endif  // VRANK_VIRTUAL_GPU_API_DNN_ATTENTION_H_
