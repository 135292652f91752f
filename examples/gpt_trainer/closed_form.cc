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

constexpr double kFloat = 4;
constexpr double kSquareSumBlocks = 256;
constexpr double kWorkspaceBytes = 32 << 20;
constexpr long long kBytesPerMegabyte = 1000 * 1000;

double Array(double bytes) {
  return static_cast<double>(CachingAllocator::RoundUp(static_cast<size_t>(bytes)));
}

// Sizes of the buffers of one layer and one micro-batch.
struct LayerSizes {
  explicit LayerSizes(const ModelShape& shape)
      : tp(shape.tp),
        slice(Array(shape.element_bytes *
                    static_cast<double>(shape.rank_hidden_elements()))),
        full(Array(shape.element_bytes * static_cast<double>(shape.hidden_elements()))),
        column(Array(shape.element_bytes * shape.rows() * shape.rank_hidden())),
        qkv(Array(shape.element_bytes * 3 * shape.rows() * shape.rank_hidden())),
        ffn(Array(shape.element_bytes * shape.rows() * shape.rank_ffn())),
        scores(
            Array(shape.element_bytes * static_cast<double>(shape.score_elements()))),
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
  const double logits = Array(shape.element_bytes * shape.rows() * shape.rank_vocab());
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

double ExecutedVectorFlops(const ModelShape& shape, int stage, int bucket_mb) {
  const double rows = shape.rows();
  const double slice = static_cast<double>(shape.rank_hidden_elements());
  const double qkv = 3 * rows * shape.rank_hidden();
  const double ffn = rows * shape.rank_ffn();
  const double visible = static_cast<double>(shape.score_elements()) *
                         (shape.sequence + 1) / (2.0 * shape.sequence);
  const double norm = (8 + 14 + 5) * slice;  // forward, backward, parameter gradients
  const double biases = qkv + 2 * 2 * slice + (10 + 19) * ffn;  // with gelu, residuals
  const double bias_gradients = qkv + ffn + 2 * slice;
  const double softmax = (2 * 7 + 4) * visible;  // forward twice, backward
  double micro_batch =
      shape.stage_layers() * (2 * norm + biases + bias_gradients + softmax);
  if (shape.first_stage(stage)) {
    micro_batch += 2 * slice + rows * shape.hidden;  // positions, words
  }
  if (shape.last_stage(stage)) {
    micro_batch += norm + (1 + 3 + 5) * rows * shape.rank_vocab() + 3 * rows;
  }
  const ParameterLayout layout =
      MakeParameterLayout(shape, {0, 0, stage}, bucket_mb * kBytesPerMegabyte);
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
      shape, {0, 0, stage}, arguments.bucket_mb * kBytesPerMegabyte);
  Traffic traffic;
  if (shape.tp > 1) {
    // Gathers: two forward, four backward (gradient and input of both halves); the head
    // one and one, the embedding one backward. Scatters: two and two; one per end.
    const int ends = (first ? 1 : 0) + (last ? 1 : 0);
    const int gathers = 6 * shape.stage_layers() + ends + (last ? 1 : 0);
    const int scatters = 4 * shape.stage_layers() + ends;
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
    const int neighbours = (first ? 0 : 1) + (last ? 0 : 1);
    traffic.send = micro_batches * neighbours * slice;
    traffic.receive = traffic.send;
  }
  if (shape.dp > 1) {
    traffic.all_gather +=
        shape.element_bytes * static_cast<double>(layout.shard_elements);
    traffic.reduce_scatter += kFloat * static_cast<double>(layout.shard_elements);
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
  const ParameterLayout layout = MakeParameterLayout(shape, {0, 0, stage}, 1);
  long long parameters = 0;
  for (const Parameter& parameter : layout.parameters) {
    parameters += parameter.elements();
  }
  return parameters;
}

MemoryForm PeakMemory(const ModelShape& shape, int stage, int bucket_mb) {
  const ParameterLayout layout =
      MakeParameterLayout(shape, {0, 0, stage}, bucket_mb * kBytesPerMegabyte);
  const LayerSizes layer(shape);
  const double elements = static_cast<double>(layout.elements);
  MemoryForm memory;
  memory.parameters = Array(shape.element_bytes * elements);
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
  Append(&text, "%d ranks = tp %d x dp %d x pp %d; per iteration and rank:\n",
         shape.world_size(), shape.tp, shape.dp, shape.pp);
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
