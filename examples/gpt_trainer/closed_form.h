// FLOPs and memory of a rank in closed form: what a run must account for.
//
// Used by --explain, by the throughput figure in the log, and by tests that compare a
// run with the arithmetic. Pure: no device.
//
// With experts the forms take each to have as many rows as the others: sums over ranks
// are exact, a rank's share is its mean.

#ifndef EXAMPLES_GPT_TRAINER_CLOSED_FORM_H_
#define EXAMPLES_GPT_TRAINER_CLOSED_FORM_H_

#include <string>

#include "examples/gpt_trainer/arguments.h"
#include "examples/gpt_trainer/model_shape.h"

namespace gpt {

// FLOPs of an iteration over all ranks that the *model* needs, without recomputation,
// by the formula of Narayanan et al. 2021 (appendix, equation 2, with a forward and
// twice a forward for backward), which Megatron-LM uses for its throughput line:
//   72 B s l h^2 (1 + s / (6 h) + V / (12 l h))
double ModelFlops(const ModelShape& shape);

// FLOPs of matrix products that the ranks of one stage execute, each, per iteration:
// ModelFlops' share plus the attention scores that backward computes again.
double ExecutedMatrixFlops(const ModelShape& shape, int stage);

// FLOPs of all other kernels, as kernels.textproto counts them.
double ExecutedVectorFlops(const ModelShape& shape, int stage, int bucket_mb);

// Bytes that a rank hands to NCCL per iteration: the call's count times the size of an
// element (all-gather: the part it sends; reduce-scatter: the part it receives).
struct Traffic {
  double all_gather = 0;
  double reduce_scatter = 0;
  double all_reduce = 0;
  double send = 0;
  double receive = 0;
};
Traffic NcclTraffic(const Arguments& arguments, const ModelShape& shape, int stage);

// Bytes of device memory of a rank at its peak, as the allocator hands them out
// (rounded up per array).
struct MemoryForm {
  double parameters = 0;   // bf16, flat
  double gradients = 0;    // fp32, flat
  double optimizer = 0;    // master weights, momentum, variance: a shard of each
  double activations = 0;  // kept for the backward of all micro-batches in flight
  double temporary = 0;    // what the costliest moment needs besides
  double workspace = 0;    // cuBLAS, batch, norms

  double total() const {
    return parameters + gradients + optimizer + activations + temporary + workspace;
  }
};
MemoryForm PeakMemory(const ModelShape& shape, int stage, int bucket_mb);

// Parameters of a rank, without padding.
long long RankParameters(const ModelShape& shape, int stage);

// The text of --explain.
std::string Explain(const Arguments& arguments, const ModelShape& shape);

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_CLOSED_FORM_H_
