// Attention by fused kernels, over positions that may be spread over context-parallel
// ranks (Liu et al. 2023, "Ring Attention with Blockwise Transformers").
//
// Keys and values travel around the ring while each rank's queries stay: in step i a
// rank attends to what came from the rank i places before it, and the next part is on
// its way at the same time. Backward sends the gradients of keys and values along,
// which gather what each rank adds and come home after a full turn.

#ifndef EXAMPLES_GPT_TRAINER_FUSED_ATTENTION_H_
#define EXAMPLES_GPT_TRAINER_FUSED_ATTENTION_H_

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

// context_rows[rows, rank_hidden] = attention of qkv; log_sums[rows, rank_heads].
void FusedAttention(const RankContext& context, Element* context_rows, float* log_sums,
                    const Element* qkv);

// dqkv = gradient of qkv, given the gradient of context_rows.
struct FusedAttentionSaved {
  const Element* qkv;
  const float* log_sums;
  const float* delta;
};
void FusedAttentionGradient(const RankContext& context, Element* dqkv,
                            const Element* dcontext_rows,
                            const FusedAttentionSaved& saved);

AttentionSize FusedAttentionSize(const ModelShape& shape);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_FUSED_ATTENTION_H_
