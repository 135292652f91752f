// Memory in closed form. The formulas mirror transformer_layer.cc, expert_mlp.cc and
// model_ends.cc: the lifetime of each buffer there decides what is alive at the peak
// here.

#include <algorithm>

#include "examples/gpt_trainer/caching_allocator.h"
#include "examples/gpt_trainer/closed_form.h"
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
    if (shape.experts > 0) {
      const double rows = shape.rank_rows();
      experts = Array(shape.element_bytes * rows * shape.experts) +
                3 * Array(kFloat * rows) + 2 * slice;
      gates = Array(kFloat * rows);
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
  // that backward uses. Experts, as if each had as many rows as the others: routing,
  // rows received and returned.
  double used() const {
    return 4 * slice + 2 * statistics + qkv + column + attention() + 2 * ffn + experts;
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
    if (experts > 0) {  // with the experts' results, and the output
      return std::max(HiddenPeak(), used() + 2 * slice);
    }
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
    // Gradients of the sorted rows, of the experts' results and their hidden layer, and
    // of what came in.
    const double routed = experts > 0 ? used() + 4 * slice + ffn + gates : 0;
    return std::max({routed, mlp_gathered, fc1_input, projection,
                     attention_used + slice + delta, attention_used + slice + core,
                     qkv_input, again});
  }

  int tp;
  Recompute recompute;
  bool overlap_tp;
  double slice, full, column, qkv, ffn, statistics;
  double scores = 0, log_sums = 0, ring = 0, experts = 0, gates = 0;
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

}  // namespace

MemoryForm PeakMemory(const ModelShape& shape, int stage, int bucket_mb) {
  Coordinates at;  // of the stage's first rank: all its ranks have the same sizes
  at.pp = stage;
  const ParameterLayout layout =
      MakeParameterLayout(shape, at, bucket_mb * kBytesPerMegabyte);
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

}  // namespace gpt
