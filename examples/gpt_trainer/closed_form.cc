// Work and traffic; memory_form.cc has the memory.

#include "examples/gpt_trainer/closed_form.h"

#include <cstdarg>
#include <cstdio>

#include "examples/gpt_trainer/parameter_layout.h"

namespace gpt {
namespace {

constexpr double kFloat = 4;
constexpr long long kBytesPerMegabyte = 1000 * 1000;

// Of the stage's first rank: all its ranks have the same sizes.
Coordinates StageCoordinates(int stage) {
  Coordinates at;
  at.pp = stage;
  return at;
}

void Append(std::string* text, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
void Append(std::string* text, const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  *text += line;
}

}  // namespace

double ModelFlops(const ModelShape& shape) {
  const double batch = 1.0 * shape.micro_batch_size * shape.micro_batches * shape.dp;
  const double s = shape.sequence;
  const double l = shape.layers;
  const double h = shape.hidden;
  const double v = shape.vocab;
  return 72 * batch * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
}

double ExecutedMatrixFlops(const ModelShape& shape, int stage) {
  const double rows = shape.rows();
  const double s = shape.sequence;
  const double h = shape.hidden;
  // Weights: 12 h^2 / tp, three products each (forward, both gradients); again all but
  // the last four h^2.
  const bool again = shape.recompute == Recompute::kFull;
  const double linear = 2 * rows * (3 * 12 + (again ? 8 : 0)) * h * h / shape.tp;
  // s x s products: 2 forward, 4 gradients, and what is computed again.
  double products = 0;
  if (!shape.fused_attention()) {
    products = 6 + (again ? 2 : shape.recompute == Recompute::kSelective ? 1 : 0);
  }
  const double attention = products * 2 * rows * s * h / shape.tp;
  // Experts do a dense MLP's work, if all have as many rows; the router comes on top.
  const double router = 3.0 * 2 * shape.rank_rows() * h * shape.experts;
  double micro_batch = shape.stage_layers() * (linear + attention + router);
  if (shape.last_stage(stage)) {
    micro_batch += 3 * 2 * rows * h * shape.rank_vocab();
  }
  return shape.micro_batches * micro_batch;
}

namespace {

// FLOPs of the kernels of one layer and micro-batch, without matrix products.
double LayerVectorFlops(const ModelShape& shape) {
  const double rows = shape.rows();
  const double slice = static_cast<double>(shape.rank_hidden_elements());
  const double qkv = 3 * rows * shape.rank_hidden();
  const double ffn = rows * shape.rank_ffn();
  double attention = 0;
  double attention_backward = 0;
  if (shape.fused_attention()) {
    // Pairs of a row and a position that it sees, over this rank's heads.
    const double local = shape.local_sequence();
    const double pairs = shape.micro_batch_size * shape.rank_heads() * local *
                         (local + 1 + (shape.cp - 1) * local) / 2;
    const double d = shape.head_size();
    attention = pairs * (4 * d + 6);
    attention_backward =
        pairs * (6 * d + 5 + 8 * d + 5) + 2 * rows * shape.rank_hidden();
  } else {
    const double visible = static_cast<double>(shape.score_elements()) *
                           (shape.sequence + 1) / (2.0 * shape.sequence);
    attention = 7 * visible;
    attention_backward =
        4 * visible + (shape.recompute == Recompute::kSelective ? 7 * visible : 0);
  }
  // Beside a dense MLP: probabilities, places, gates, and a bias by itself.
  double routing = 0;
  if (shape.experts > 0) {
    const double routed = shape.rank_rows();
    const double counting = shape.router_skew < 0 ? 1 : 0;
    routing =
        routed * (shape.experts * (6 + counting + 3) + routed) + (1 + 3 + 1) * slice;
  }
  // Norms, biases with gelu; the residual after attention.
  const double hidden = 2 * 8 * slice + qkv + 2 * slice + 10 * ffn + attention;
  const double output = 2 * slice;
  const double norms_backward = 2 * (14 + 5) * slice;
  const double bias_gradients = qkv + ffn + 2 * slice;
  const double backward =
      norms_backward + bias_gradients + 19 * ffn + attention_backward;
  return hidden + output + backward + routing +
         (shape.recompute == Recompute::kFull ? hidden : 0);
}

}  // namespace

double ExecutedVectorFlops(const ModelShape& shape, int stage, int bucket_mb) {
  const double rows = shape.rows();
  const double slice = static_cast<double>(shape.rank_hidden_elements());
  double micro_batch = shape.stage_layers() * LayerVectorFlops(shape);
  if (shape.first_stage(stage)) {
    micro_batch += 2 * slice + rows * shape.hidden;  // positions, words
  }
  if (shape.last_stage(stage)) {
    const double norm = (8 + 14 + 5) * slice;
    micro_batch += norm + (1 + 3 + 5) * rows * shape.rank_vocab() + 3 * rows;
  }
  const ParameterLayout layout = MakeParameterLayout(shape, StageCoordinates(stage),
                                                     bucket_mb * kBytesPerMegabyte);
  const double update = (18 + 2) * static_cast<double>(layout.shard_elements);
  return shape.micro_batches * micro_batch + update;
}

Traffic NcclTraffic(const Arguments& arguments, const ModelShape& shape, int stage) {
  const bool first = shape.first_stage(stage);
  const bool last = shape.last_stage(stage);
  const double micro_batches = shape.micro_batches;
  const double slice =
      shape.element_bytes * static_cast<double>(shape.rank_hidden_elements());
  const ParameterLayout layout = MakeParameterLayout(
      shape, StageCoordinates(stage), arguments.bucket_mb * kBytesPerMegabyte);
  Traffic traffic;
  if (shape.tp > 1) {
    // Gathers: two forward, four backward (gradient and input of both halves); the head
    // one and one, the embedding one backward. Scatters: two and two; one per end. A
    // layer that is computed again gathers twice and scatters once more.
    const int ends = (first ? 1 : 0) + (last ? 1 : 0);
    const bool again = shape.recompute == Recompute::kFull;
    // Experts work on slices: the MLP's half is missing.
    const bool dense = shape.experts == 0;
    const int gathers = (again   ? 8
                         : dense ? 6
                                 : 3) *
                            shape.stage_layers() +
                        ends + (last ? 1 : 0);
    const int scatters = (again ? 5 : dense ? 4 : 2) * shape.stage_layers() + ends;
    traffic.all_gather += micro_batches * gathers * slice;
    traffic.reduce_scatter += micro_batches * scatters * slice;
    for (const Bucket& bucket : layout.buckets) {
      if (bucket.group == ParameterGroup::kReplicated) {
        traffic.all_reduce += kFloat * static_cast<double>(bucket.elements);
      }
    }
    if (last) {  // maxima, then two sums per row
      traffic.all_reduce += micro_batches * 3 * kFloat * shape.rows();
    }
  }
  if (shape.pp > 1) {
    if (layout.word_embedding >= 0) {
      traffic.all_reduce += kFloat * shape.rank_vocab() * shape.hidden;
    }
    // Each chunk sends its output and its input's gradient, but at the model's ends.
    const int ends = (first ? 1 : 0) + (last ? 1 : 0);
    traffic.send += micro_batches * (2 * shape.virtual_stages - ends) * slice;
  }
  if (shape.cp > 1) {
    // Keys and values go cp - 1 steps each way, their gradients cp.
    const double part = 2.0 * shape.element_bytes * shape.rows() * shape.rank_hidden();
    const int forwards = shape.recompute == Recompute::kFull ? 2 : 1;
    traffic.send += micro_batches * shape.stage_layers() * part *
                    ((forwards + 1) * (shape.cp - 1) + shape.cp);
  }
  if (shape.ep > 1) {
    // To the experts and back, forward and backward; as many come as go in all.
    const double layers = micro_batches * shape.stage_layers();
    traffic.send += layers * 4 * slice;
    traffic.all_gather += layers * kFloat * shape.experts;  // counts
  }
  traffic.receive = traffic.send;
  for (const Bucket& bucket : layout.buckets) {
    if (bucket.replicas > 1) {
      traffic.all_gather +=
          1.0 * shape.element_bytes * static_cast<double>(bucket.shard());
      traffic.reduce_scatter += kFloat * static_cast<double>(bucket.shard());
    }
  }
  if (shape.world_size() > 1) {
    traffic.all_reduce += 2 * kFloat;
  }
  if (arguments.extra_all_reduce) {
    traffic.all_reduce += kFloat;
  }
  return traffic;
}

long long RankParameters(const ModelShape& shape, int stage) {
  const ParameterLayout layout = MakeParameterLayout(shape, StageCoordinates(stage), 1);
  long long parameters = 0;
  for (const Parameter& parameter : layout.parameters) {
    parameters += parameter.elements();
  }
  return parameters;
}

std::string Explain(const Arguments& arguments, const ModelShape& shape) {
  std::string text;
  Append(&text, "%d ranks = tp %d x cp %d x dp %d x pp %d; per iteration and rank:\n",
         shape.world_size(), shape.tp, shape.cp, shape.dp, shape.pp);
  Append(&text, "model FLOPs %.6e (all ranks %.6e)\n",
         ModelFlops(shape) / shape.world_size(), ModelFlops(shape));
  for (int stage = 0; stage < shape.pp; ++stage) {
    const MemoryForm memory = PeakMemory(shape, stage, arguments.bucket_mb);
    const Traffic traffic = NcclTraffic(arguments, shape, stage);
    Append(&text, "stage %d: %lld parameters per rank\n", stage,
           RankParameters(shape, stage));
    Append(&text, "  FLOPs     %.6e in matrix products, %.6e in other kernels\n",
           ExecutedMatrixFlops(shape, stage),
           ExecutedVectorFlops(shape, stage, arguments.bucket_mb));
    Append(&text,
           "  NCCL      %.0f bytes all-gather, %.0f reduce-scatter, %.0f all-reduce, "
           "%.0f send, %.0f receive\n",
           traffic.all_gather, traffic.reduce_scatter, traffic.all_reduce, traffic.send,
           traffic.receive);
    Append(&text,
           "  memory    %.0f bytes at the peak: parameters %.0f, gradients %.0f, "
           "optimizer %.0f, activations %.0f, temporary %.0f, workspace %.0f\n",
           memory.total(), memory.parameters, memory.gradients, memory.optimizer,
           memory.activations, memory.temporary, memory.workspace);
  }
  return text;
}

}  // namespace gpt
