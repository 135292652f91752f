// Checks once, here, what every other file takes for granted.

#include "examples/gpt_trainer/model_shape.h"

#include <climits>
#include <string>

namespace gpt {
namespace {

// Two floats per position have to fit into 48 KiB, the shared memory that a block gets
// without asking for more (CUDA C++ Programming Guide, "Compute Capabilities").
constexpr int kMostFusedPositions = 48 * 1024 / (2 * sizeof(float));

void MustDivide(const char* what, int value, const char* by, int divisor) {
  if (value % divisor != 0) {
    throw UsageError(std::string(what) + " " + std::to_string(value) +
                     " is not a multiple of " + by + " " + std::to_string(divisor));
  }
}

void MustBeRank(const char* option, int rank, int ranks) {
  if (rank >= ranks) {
    throw UsageError(std::string(option) + " " + std::to_string(rank) +
                     ": the last rank is " + std::to_string(ranks - 1));
  }
}

int DataParallelSize(const Arguments& arguments, int world_size) {
  const long long model_ranks = 1LL * arguments.tp * arguments.cp * arguments.pp;
  if (world_size == 0) {
    return arguments.dp == 0 ? 1 : arguments.dp;
  }
  const long long dp = arguments.dp == 0 ? world_size / model_ranks : arguments.dp;
  if (dp < 1 || model_ranks * dp != world_size) {
    throw UsageError("WORLD_SIZE " + std::to_string(world_size) + " is not tp " +
                     std::to_string(arguments.tp) + " x cp " +
                     std::to_string(arguments.cp) + " x pp " +
                     std::to_string(arguments.pp) + " x dp " + std::to_string(dp));
  }
  return static_cast<int>(dp);
}

}  // namespace

ModelShape MakeModelShape(const Arguments& arguments, int world_size,
                          int element_bytes) {
  ModelShape shape{};
  shape.layers = arguments.layers;
  shape.hidden = arguments.hidden;
  shape.heads = arguments.heads;
  shape.sequence = arguments.sequence;
  shape.vocab = arguments.vocab;
  shape.micro_batch_size = arguments.micro_batch_size;
  shape.micro_batches = arguments.micro_batches;
  shape.tp = arguments.tp;
  shape.cp = arguments.cp;
  shape.pp = arguments.pp;
  shape.virtual_stages = arguments.virtual_stages;
  shape.overlap_tp = arguments.overlap_tp && arguments.tp > 1;
  shape.experts = arguments.experts;
  shape.ep = arguments.ep;
  shape.router_skew = arguments.router_skew;
  shape.attention = arguments.attention;
  shape.recompute = arguments.recompute;
  shape.dp = DataParallelSize(arguments, world_size);
  shape.element_bytes = element_bytes;
  if (shape.experts == 0 && (shape.ep > 1 || shape.router_skew >= 0.0f)) {
    throw UsageError("--ep and --router-skew need --experts");
  }
  if (shape.experts > 0) {
    MustDivide("--dp", shape.dp, "--ep", shape.ep);
    MustDivide("--experts", shape.experts, "--ep", shape.ep);
    if (shape.recompute == Recompute::kFull) {
      throw UsageError("--recompute full cannot route rows to --experts again");
    }
  }
  if (!(arguments.loss_scale > 0.0f)) {
    throw UsageError("--loss-scale must be more than 0");
  }
  MustBeRank("--overflow-rank", arguments.overflow_rank, shape.world_size());
  MustBeRank("--log-rank", arguments.log_rank, shape.world_size());
  MustDivide("--layers", shape.layers, "--pp", shape.pp);
  if (shape.virtual_stages > 1) {
    if (shape.pp < 2) {
      throw UsageError("--virtual-stages needs --pp of at least 2");
    }
    MustDivide("--layers / --pp", shape.stage_layers(), "--virtual-stages",
               shape.virtual_stages);
    MustDivide("--micro-batches", shape.micro_batches, "--pp", shape.pp);
  }
  MustDivide("--hidden", shape.hidden, "--heads", shape.heads);
  MustDivide("--heads", shape.heads, "--tp", shape.tp);
  if (shape.cp > 1) {
    if (!shape.fused_attention()) {
      throw UsageError("--cp needs --attention fused");
    }
    MustDivide("--sequence", shape.sequence, "2 x --cp", 2 * shape.cp);
  }
  MustDivide("--sequence / --cp", shape.local_sequence(), "--tp", shape.tp);
  if (shape.fused_attention() && shape.local_sequence() > kMostFusedPositions) {
    throw UsageError("--attention fused takes at most " +
                     std::to_string(kMostFusedPositions) +
                     " positions per rank; raise --cp");
  }
  MustDivide("--vocab", shape.vocab, "--tp", shape.tp);
  // bf16 tensor cores want 16-byte aligned rows.
  MustDivide("--hidden / --heads", shape.head_size(), "the vector width", 8);
  MustDivide("--vocab / --tp", shape.rank_vocab(), "the vector width", 8);
  // GEMM sizes and leading dimensions are ints.
  if (1LL * shape.micro_batch_size * shape.sequence > INT_MAX / 4 ||
      12LL * shape.hidden * shape.micro_batch_size > INT_MAX) {
    throw UsageError("--sequence x --micro-batch-size is too large");
  }
  return shape;
}

}  // namespace gpt
