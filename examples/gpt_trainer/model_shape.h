// Sizes of the model and of the part of it that one rank holds.
//
// Everything else derives its loop bounds, buffer sizes and GEMM shapes from here.
// Words: a *row* is one token position of one sequence; activations are [rows, columns]
// with rows ordered (position, sequence in the micro-batch), as in Megatron-LM, so that
// a slice of positions is contiguous and sequence parallelism needs no transposes.

#ifndef EXAMPLES_GPT_TRAINER_MODEL_SHAPE_H_
#define EXAMPLES_GPT_TRAINER_MODEL_SHAPE_H_

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/kernels/positions.h"

namespace gpt {

// Where a rank stands. Ranks count tensor-parallel first, then context-parallel,
// data-parallel and pipeline (Megatron-LM's default order "tp-cp-ep-dp-pp").
struct Coordinates {
  int tp = 0;
  int cp = 0;
  int dp = 0;
  int pp = 0;
};

struct ModelShape {
  int layers, hidden, heads, sequence, vocab, micro_batch_size, micro_batches;
  int tp, cp, pp, dp;
  int virtual_stages;
  int experts, ep;
  float router_skew;  // below 0: the router decides
  AttentionKind attention;
  bool overlap_tp;
  Recompute recompute;
  int element_bytes;  // of an activation or parameter: 2 (bf16), or 4 on the host

  int world_size() const { return tp * cp * pp * dp; }
  int stage_layers() const { return layers / pp; }  // of a rank, over all chunks
  int chunk_layers() const { return stage_layers() / virtual_stages; }
  int head_size() const { return hidden / heads; }
  int rank_heads() const { return heads / tp; }
  int rank_hidden() const { return hidden / tp; }  // attention output columns
  int ffn() const { return 4 * hidden; }
  int rank_ffn() const { return ffn() / tp; }  // MLP columns
  int rank_vocab() const { return vocab / tp; }
  int local_sequence() const { return sequence / cp; }
  int rank_sequence() const { return local_sequence() / tp; }
  int rows() const { return local_sequence() * micro_batch_size; }
  int rank_rows() const { return rows() / tp; }  // sequence-parallel slice
  long long hidden_elements() const { return 1LL * rows() * hidden; }
  long long rank_hidden_elements() const { return 1LL * rank_rows() * hidden; }
  long long score_elements() const {
    return 1LL * micro_batch_size * rank_heads() * sequence * sequence;
  }
  // Whether the pipeline rank holds the first (last) layers of the model.
  bool first_stage(int stage) const { return stage == 0; }
  bool last_stage(int stage) const { return stage == pp - 1; }

  Coordinates CoordinatesOf(int rank) const {
    return {rank % tp, rank / tp % cp, rank / (tp * cp) % dp, rank / (tp * cp * dp)};
  }
  // With cp = 1 all positions are in the first chunk.
  Positions PositionsOf(int cp_rank) const {
    const int half = cp == 1 ? sequence : sequence / (2 * cp);
    return {half, cp_rank * half, (2 * cp - 1 - cp_rank) * half};
  }
  // Ranks that hold the same parameters and see different tokens.
  int replicas() const { return cp * dp; }
  // Ranks that hold the same experts: experts are not split over tp ranks, which see
  // different tokens, too.
  int expert_replicas() const { return tp * cp * dp / ep; }
  // Tokens of an iteration, over all ranks.
  double tokens() const {
    return 1.0 * sequence * micro_batch_size * micro_batches * dp;
  }
  bool fused_attention() const { return attention == AttentionKind::kFused; }
};

// Checks that everything divides. `world_size` fills in arguments.dp = 0; pass 0 where
// there is no world (then dp = 0 means 1). Throws UsageError.
ModelShape MakeModelShape(const Arguments& arguments, int world_size,
                          int element_bytes = 2);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_MODEL_SHAPE_H_
