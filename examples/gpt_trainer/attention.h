// Causal self-attention over this rank's heads.
//
// qkv is [rows, rank_heads, 3, head_size]: query, key and value of a head lie side by
// side, so that one stride walks over all heads and sequences of the micro-batch and
// the products are single strided-batched calls. The [sequence, sequence] probabilities
// are not kept for backward but computed again (selective recomputation, Korthikanti et
// al. 2022, section 5): they would be the largest activation by far.

#ifndef EXAMPLES_GPT_TRAINER_ATTENTION_H_
#define EXAMPLES_GPT_TRAINER_ATTENTION_H_

#include "examples/gpt_trainer/kernels/kernels.h"
#include "examples/gpt_trainer/rank_context.h"

namespace gpt {

// context_rows[rows, rank_hidden] = attention of qkv[rows, 3 * rank_hidden].
void AttentionForward(const RankContext& context, Element* context_rows,
                      const Element* qkv);

// dqkv = gradient of qkv, given the gradient of context_rows.
void AttentionBackward(const RankContext& context, Element* dqkv,
                       const Element* dcontext_rows, const Element* qkv);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_ATTENTION_H_
