// Causal self-attention over this rank's heads.
//
// qkv is [rows, rank_heads, 3, head_size]: query, key and value of a head lie side by
// side, so that one stride walks over all heads and sequences of the micro-batch and
// the products are single strided-batched calls. The [sequence, sequence] probabilities
// of batched attention would be the largest activation by far; with selective
// recomputation they are not kept for backward but computed again. Fused attention
// (fused_attention.h) never has them in memory.

#ifndef EXAMPLES_GPT_TRAINER_ATTENTION_H_
#define EXAMPLES_GPT_TRAINER_ATTENTION_H_

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

struct AttentionActivations {
  DeviceArray<Element> qkv;            // 6 sbh / tp
  DeviceArray<Element> context;        // 2: the result
  DeviceArray<Element> probabilities;  // batched, not recomputed
  DeviceArray<float> log_sums;         // fused
};

// saved->context = attention of saved->qkv.
void AttentionForward(const RankContext& context, AttentionActivations* saved);

// dqkv = gradient of qkv, given the gradient of the context. Gives back what is saved
// but qkv.
void AttentionBackward(const RankContext& context, Element* dqkv,
                       const Element* dcontext_rows, AttentionActivations* saved);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_ATTENTION_H_
