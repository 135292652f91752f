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

// Of the stage's first rank: all its ranks have the same sizes.
Coordinates StageCoordinates(int stage) {
  Coordinates at;
  at.pp = stage;
  return at;
}

double Array(double bytes) {
  return static_cast<double>(CachingAllocator::RoundUp(static_cast<size_t>(bytes)));
}

// Sizes of the buffers of one layer and one micro-batch.
struct LayerSizes {
  explicit LayerSizes(const ModelShape& shape)
      : tp(shape.tp),
        recompute(shape.recompute),
        overlap_tp(shape.overlap_tp),
        slice(Array(shape.element_bytes *
                    static_cast<double>(shape.rank_hidden_elements()))),
        full(Array(shape.element_bytes * static_cast<double>(shape.hidden_elements()))),
        column(Array(1.0 * shape.element_bytes * shape.rows() * shape.rank_hidden())),
        qkv(Array(3.0 * shape.element_bytes * shape.rows() * shape.rank_hidden())),
        ffn(Array(1.0 * shape.element_bytes * shape.rows() * shape.rank_ffn())),
        statistics(2 * Array(kFloat * shape.rank_rows())) {
    if (shape.fused_attention()) {
      log_sums = Array(kFloat * shape.rows() * shape.rank_heads());
    } else {
      scores = Array(shape.element_bytes * static_cast<double>(shape.score_elements()));
    }
    if (shape.cp > 1) {  // two parts, here and coming
      ring = 2 * Array(2.0 * shape.element_bytes * shape.rows() * shape.rank_hidden());
    }
  }

  // Of attention, besides qkv and its context.
  double attention() const {
    return log_sums + (recompute == Recompute::kSelective ? 0 : scores);
  }
  // input, norm1, middle, norm2; two pairs of statistics; qkv, context; fc1, gelu: all
  // that backward uses.
  double used() const {
    return 4 * slice + 2 * statistics + qkv + column + attention() + 2 * ffn;
  }
  // What of it waits from forward for backward.
  double kept() const { return recompute == Recompute::kFull ? slice : used(); }
  // A gather needs all rows besides the slice; with tp = 1 it needs nothing.
  double gathered() const { return tp > 1 ? full : 0; }
  // A reduce-scatter holds both; with tp = 1 the product is the result.
  double scattered() const { return tp > 1 ? full + slice : full; }

  // What ColumnParallelBackward needs at most.
  double ColumnBackward() const {
    return overlap_tp ? 2 * full + slice : std::max(scattered(), slice + gathered());
  }
  // The most that is alive until the MLP's hidden layer is computed.
  double HiddenPeak() const {
    const double until_context = 2 * slice + statistics + qkv + column;
    return std::max({until_context + log_sums + scores + ring,
                     until_context + attention() + scattered(),
                     used() - ffn + gathered(), used()});
  }
  // The most that is alive while the layer runs forward, its own buffers included.
  double ForwardPeak() const {
    return std::max({HiddenPeak(), used() + scattered(), used() + full / tp + slice});
  }

  // The same for backward; the gradient that passes through is one slice.
  double BackwardPeak() const {
    const double mlp_gathered = used() + slice + gathered();
    const double fc1_input = used() - ffn + slice + ColumnBackward();
    const double attention_used = 2 * slice + statistics + qkv + attention();
    // Fused attention compares the context with its gradient.
    const double contexts = log_sums > 0 ? 2 * column : column;
    const double projection = attention_used + contexts + slice + gathered();
    const double delta = log_sums > 0 ? contexts + qkv + log_sums : 0;
    const double core = column + qkv + (log_sums > 0 ? log_sums + 2 * ring : scores) +
                        (recompute == Recompute::kSelective ? scores : 0);
    const double qkv_input =
        3 * slice + statistics + qkv + std::max(scattered(), slice + gathered());
    const double again = recompute == Recompute::kFull ? slice + HiddenPeak() : 0;
    return std::max({mlp_gathered, fc1_input, projection,
                     attention_used + slice + delta, attention_used + slice + core,
                     qkv_input, again});
  }

  int tp;
  Recompute recompute;
  bool overlap_tp;
  double slice, full, column, qkv, ffn, statistics;
  double scores = 0, log_sums = 0, ring = 0;
};

// The most that the loss head needs at once.
double HeadPeak(const ModelShape& shape, const LayerSizes& layer) {
  const double logits =
      Array(1.0 * shape.element_bytes * shape.rows() * shape.rank_vocab());
  const double sums = Array(kFloat * shape.rows()) + Array(2 * kFloat * shape.rows());
  const double kept = 2 * layer.slice + layer.statistics + logits;
  return std::max({kept + layer.gathered(), kept + sums + layer.scattered(),
                   kept + sums + layer.slice + layer.gathered()});
}

// What the micro-batches in flight need.
struct ScheduleMemory {
  double kept = 0;  // at most, for backward
  double peak = 0;  // at most, with what the running step needs
};

// A chunk in flight keeps its layers' buffers; an activation or a gradient that comes
// or goes is a slice.
ScheduleMemory WalkSchedule(const ModelShape& shape, int stage,
                            const LayerSizes& layer) {
  using Kind = PipelineStep::Kind;
  const double head = shape.last_stage(stage) ? HeadPeak(shape, layer) : 0;
  const int last_chunk = shape.virtual_stages - 1;
  const double chunk = layer.kept() * shape.chunk_layers();
  double kept = 0;
  double input = 0, output = 0, input_gradient = 0, output_gradient = 0;  // waiting
  ScheduleMemory memory;
  for (const PipelineStep& step : MakePipelineSchedule(
           stage, shape.pp, shape.virtual_stages, shape.micro_batches)) {
    const bool ends = step.work.chunk == last_chunk && shape.last_stage(stage);
    const bool begins = step.work.chunk == 0 && shape.first_stage(stage);
    double running = 0;
    switch (step.kind) {
      case Kind::kForward:
        kept += chunk;
        input = 0;  // is kept
        running = std::max(layer.ForwardPeak() - layer.kept(), ends ? head : 0);
        break;
      case Kind::kBackward:
        output_gradient = 0;  // counted as the one that passes through
        running = std::max(layer.BackwardPeak() - layer.kept(), ends ? head : 0);
        break;
      case Kind::kExchange:
        input = step.receive_forward.exists() ? layer.slice : input;
        output_gradient =
            step.receive_backward.exists() ? layer.slice : output_gradient;
        break;
    }
    memory.kept = std::max(memory.kept, kept);
    memory.peak = std::max(memory.peak, kept + running + input + output +
                                            input_gradient + output_gradient);
    if (step.kind == Kind::kForward) {
      output = ends ? 0 : layer.slice;
    } else if (step.kind == Kind::kBackward) {
      kept -= chunk;
      input_gradient = begins ? 0 : layer.slice;
    } else {
      output = step.send_forward.exists() ? 0 : output;
      input_gradient = step.send_backward.exists() ? 0 : input_gradient;
    }
  }
  return memory;
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
  double micro_batch = shape.stage_layers() * (linear + attention);
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
  // Norms, biases with gelu; the residual after attention.
  const double hidden = 2 * 8 * slice + qkv + 2 * slice + 10 * ffn + attention;
  const double output = 2 * slice;
  const double norms_backward = 2 * (14 + 5) * slice;
  const double bias_gradients = qkv + ffn + 2 * slice;
  const double backward =
      norms_backward + bias_gradients + 19 * ffn + attention_backward;
  return hidden + output + backward +
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
    const int gathers = (again ? 8 : 6) * shape.stage_layers() + ends + (last ? 1 : 0);
    const int scatters = (again ? 5 : 4) * shape.stage_layers() + ends;
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
  traffic.receive = traffic.send;
  if (shape.replicas() > 1) {
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
  const ParameterLayout layout = MakeParameterLayout(shape, StageCoordinates(stage), 1);
  long long parameters = 0;
  for (const Parameter& parameter : layout.parameters) {
    parameters += parameter.elements();
  }
  return parameters;
}

MemoryForm PeakMemory(const ModelShape& shape, int stage, int bucket_mb) {
  const ParameterLayout layout = MakeParameterLayout(shape, StageCoordinates(stage),
                                                     bucket_mb * kBytesPerMegabyte);
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

  const ScheduleMemory schedule = WalkSchedule(shape, stage, layer);
  memory.activations = schedule.kept;
  memory.temporary = schedule.peak - schedule.kept;
  return memory;
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
