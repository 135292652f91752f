// The formulas mirror transformer_layer.cc and model_ends.cc: the lifetime of each
// buffer there decides what is alive at the peak here.

#include "examples/gpt_trainer/closed_form.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/parameter_layout.h"
#include "examples/gpt_trainer/pipeline_schedule.h"

namespace gpt {
namespace {

constexpr double kBf16 = 2;
constexpr double kFloat = 4;
constexpr double kSquareSumBlocks = 256;
constexpr double kWorkspaceBytes = 32 << 20;

double Array(double bytes) {
  return static_cast<double>(CachingAllocator::RoundUp(static_cast<size_t>(bytes)));
}

// Sizes of the buffers of one layer and one micro-batch.
struct LayerSizes {
  explicit LayerSizes(const ModelShape& shape)
      : tp(shape.tp),
        slice(Array(kBf16 * static_cast<double>(shape.rank_hidden_elements()))),
        full(Array(kBf16 * static_cast<double>(shape.hidden_elements()))),
        column(Array(kBf16 * shape.rows() * shape.rank_hidden())),
        qkv(Array(kBf16 * 3 * shape.rows() * shape.rank_hidden())),
        ffn(Array(kBf16 * shape.rows() * shape.rank_ffn())),
        scores(Array(kBf16 * static_cast<double>(shape.score_elements()))),
        statistics(2 * Array(kFloat * shape.rank_rows())) {}

  // input, norm1, middle, norm2; two pairs of statistics; qkv; context; fc1, gelu.
  double kept() const { return 4 * slice + 2 * statistics + qkv + column + 2 * ffn; }
  // A gather needs all rows besides the slice; with tp = 1 it needs nothing.
  double gathered() const { return tp > 1 ? full : 0; }
  // A reduce-scatter holds both; with tp = 1 the product is the result.
  double scattered() const { return tp > 1 ? full + slice : full; }

  // The most that is alive while the layer runs forward, its own kept buffers included.
  double ForwardPeak() const {
    const double until_context = 2 * slice + statistics + qkv + column;
    return std::max({until_context + scores, until_context + scattered(),
                     kept() + scattered(), kept() + full / tp + slice});
  }

  // The same for backward; the gradient that passes through is one slice.
  double BackwardPeak() const {
    const double mlp_gathered = kept() + slice + gathered();
    const double fc1_input =
        kept() - ffn + slice + std::max(scattered(), slice + gathered());
    const double attention_kept = 2 * slice + statistics + qkv;
    const double projection = attention_kept + column + slice + gathered();
    const double attention = attention_kept + slice + column + qkv + 2 * scores;
    const double qkv_input =
        attention_kept + slice + std::max(scattered(), slice + gathered());
    return std::max({mlp_gathered, fc1_input, projection, attention, qkv_input});
  }

  int tp;
  double slice, full, column, qkv, ffn, scores, statistics;
};

// The most that the loss head needs at once.
double HeadPeak(const ModelShape& shape, const LayerSizes& layer) {
  const double logits = Array(kBf16 * shape.rows() * shape.rank_vocab());
  const double sums = Array(kFloat * shape.rows()) + Array(2 * kFloat * shape.rows());
  const double kept = 2 * layer.slice + layer.statistics + logits;
  return std::max({kept + layer.gathered(), kept + sums + layer.scattered(),
                   kept + sums + layer.slice + layer.gathered()});
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
  // Weights: 12 h^2 / tp, three products each (forward, both gradients).
  const double linear = 3 * 2 * rows * 12 * h * h / shape.tp;
  // s x s products: 2 forward, 1 again in backward, 4 gradients.
  const double attention = 7 * 2 * rows * s * h / shape.tp;
  double micro_batch = shape.stage_layers() * (linear + attention);
  if (shape.last_stage(stage)) {
    micro_batch += 3 * 2 * rows * h * shape.rank_vocab();
  }
  return shape.micro_batches * micro_batch;
}

long long RankParameters(const ModelShape& shape, int stage) {
  const ParameterLayout layout = MakeParameterLayout(shape, {0, 0, stage}, 1);
  long long parameters = 0;
  for (const Parameter& parameter : layout.parameters) {
    parameters += parameter.elements();
  }
  return parameters;
}

MemoryForm PeakMemory(const ModelShape& shape, int stage, int bucket_mb) {
  const ParameterLayout layout =
      MakeParameterLayout(shape, {0, 0, stage}, bucket_mb * 1000000LL);
  const LayerSizes layer(shape);
  const double elements = static_cast<double>(layout.elements);
  MemoryForm memory;
  memory.parameters = Array(kBf16 * elements);
  memory.gradients = Array(kFloat * elements);
  memory.optimizer = 3 * Array(kFloat * static_cast<double>(layout.shard_elements));
  memory.workspace =
      Array(kWorkspaceBytes) + Array(2 * kFloat * shape.micro_batches * shape.rows()) +
      Array(kFloat * kSquareSumBlocks * static_cast<double>(layout.buckets.size())) +
      Array(2 * kFloat) + Array(kFloat);

  const int in_flight = MicroBatchesInFlight(stage, shape.pp, shape.micro_batches);
  memory.activations = layer.kept() * in_flight * shape.stage_layers();
  double peak = std::max(layer.ForwardPeak(), layer.BackwardPeak()) - layer.kept();
  if (shape.last_stage(stage)) {
    peak = std::max(peak, HeadPeak(shape, layer));
  }
  memory.temporary = peak;
  return memory;
}

std::string Explain(const Arguments& arguments, const ModelShape& shape) {
  std::string text;
  Append(&text, "ranks %d = tp %d x dp %d x pp %d\n", shape.world_size(), shape.tp,
         shape.dp, shape.pp);
  Append(&text, "model FLOPs per iteration %.6e (%.6e per rank)\n", ModelFlops(shape),
         ModelFlops(shape) / shape.world_size());
  Append(&text, "%5s %14s %14s | %s\n", "stage", "parameters", "matrix FLOPs",
         "peak bytes: total = parameters + gradients + optimizer + activations + "
         "temporary + workspace");
  for (int stage = 0; stage < shape.pp; ++stage) {
    const MemoryForm memory = PeakMemory(shape, stage, arguments.bucket_mb);
    Append(&text,
           "%5d %14lld %14.6e | %.0f = %.0f + %.0f + %.0f + %.0f + %.0f + %.0f\n",
           stage, RankParameters(shape, stage), ExecutedMatrixFlops(shape, stage),
           memory.total(), memory.parameters, memory.gradients, memory.optimizer,
           memory.activations, memory.temporary, memory.workspace);
  }
  return text;
}

}  // namespace gpt
