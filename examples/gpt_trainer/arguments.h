// Command line of gpt_trainer.
//
// The parser is strict: an unknown option, a missing value or a number that does not
// fit is an error with one line of explanation. A training job that ignores a misspelt
// option wastes a cluster.

#ifndef EXAMPLES_GPT_TRAINER_ARGUMENTS_H_
#define EXAMPLES_GPT_TRAINER_ARGUMENTS_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpt {

// What the user typed cannot work; what() is one line for the terminal.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What backward computes again instead of keeping it from forward (Korthikanti et al.
// 2022, section 5).
enum class Recompute {
  kNone,
  kSelective,  // the [sequence, sequence] probabilities of attention
  kFull,       // everything but a layer's input
};

enum class AttentionKind {
  kBatched,  // batched products and a softmax: scores in memory
  kFused,    // one kernel each way: scores never leave the chip
};

struct Arguments {
  // Model.
  int layers = 4;
  int hidden = 256;
  int heads = 8;
  int sequence = 256;
  int vocab = 512;
  // Batch: every data-parallel rank processes micro_batches x micro_batch_size
  // sequences per iteration.
  int micro_batch_size = 1;
  int micro_batches = 8;
  // Parallelism. dp = 0: whatever WORLD_SIZE leaves.
  int tp = 1;
  int cp = 1;  // the positions of a sequence are spread over this many ranks
  int pp = 1;
  int virtual_stages = 1;  // chunks of layers per pipeline rank
  int dp = 0;
  // Mixture of experts: 0 experts are none, a dense MLP. A skew below 0 leaves the
  // choice to the router.
  int experts = 0;
  int ep = 1;
  float router_skew = -1.0f;
  // How a layer runs.
  AttentionKind attention = AttentionKind::kBatched;
  Recompute recompute = Recompute::kSelective;
  bool overlap_tp = false;  // tensor-parallel communication beside products in backward
  // Optimisation.
  int iterations = 3;
  float lr = 3e-4f;
  float clip_grad = 1.0f;  // 0: never clip
  int bucket_mb = 160;     // fp32 gradients per reduce-scatter
  float loss_scale = 1.0f;
  int loss_scale_window = 0;  // good steps before the scale doubles; 0: never
  uint64_t seed = 1234;
  // Checkpoints: folders, empty: none. Saved after every save_interval iterations (0:
  // none before the end) and after the last one.
  std::string save;
  std::string load;
  int save_interval = 0;
  // Data: a text file whose bytes are the tokens; empty: a text made up on the spot.
  std::string data;
  // Which rank writes the log; -1: every rank.
  int log_rank = 0;
  // Modes.
  bool extra_all_reduce = false;  // diagnostic: one more norm all-reduce per iteration
  // Diagnostic: the gradient of this rank (-1: of none) is infinite in this iteration.
  int overflow_rank = -1;
  int overflow_iteration = 0;
  bool explain = false;    // print closed forms of FLOPs and memory, then exit
  bool reference = false;  // print the first loss as the CPU computes it, then exit
  bool help = false;
};

// Throws UsageError.
Arguments ParseArguments(const std::vector<std::string>& words);

// The options, a line each.
std::string OptionsText();

}  // namespace gpt

#endif  // EXAMPLES_GPT_TRAINER_ARGUMENTS_H_
