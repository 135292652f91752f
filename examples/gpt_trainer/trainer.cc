// One iteration: batch, 1F1B pipeline, gradient sums, norm, update.

#include "examples/gpt_trainer/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "examples/gpt_trainer/device/profiler_range.h"

namespace gpt {
namespace {

// As in Megatron-LM: keeps the quotient below 1 when the norm is at the limit.
constexpr float kClipEpsilon = 1e-6f;

constexpr long long kBytesPerMegabyte = 1000 * 1000;

double HostSeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Trainer::Trainer(const Arguments& arguments, const World& world,
                 const ModelShape& shape)
    : arguments_(arguments),
      shape_(shape),
      groups_(world, shape),
      data_(arguments.data, shape),
      overlap_(shape.cp > 1 || shape.overlap_tp
                   ? std::make_unique<Overlap>(compute_.get())
                   : nullptr),
      multiply_(allocator_, compute_.get()),
      context_{shape_,        shape.CoordinatesOf(world.rank),
               groups_,       allocator_,
               multiply_,     compute_.get(),
               overlap_.get()},
      parameters_(MakeParameterLayout(shape, context_.at,
                                      arguments.bucket_mb * kBytesPerMegabyte),
                  allocator_, arguments.seed, compute_.get()),
      batch_(allocator_, 2LL * shape.micro_batches * shape.rows()),
      norm_(allocator_, 1),
      again_(allocator_, 1),
      host_batch_(2ULL * shape.micro_batches * shape.rows()),
      host_norm_(1),
      reducer_(context_, parameters_, communication_.get()),
      optimizer_(context_, parameters_, communication_.get()),
      model_(context_, parameters_, reducer_, optimizer_,
             {batch_.data(), batch_.data() + 1LL * shape.micro_batches * shape.rows()},
             &norm_.data()->loss),
      scaler_(arguments.loss_scale, arguments.loss_scale_window),
      link_(context_),
      schedule_(MakePipelineSchedule(context_.at.pp, shape.pp, shape.virtual_stages,
                                     shape.micro_batches)),
      host_time_of_norm_(HostSeconds()) {
  norm_known_.emplace_back(Event::Timing::kRecorded);
  norm_known_.emplace_back(Event::Timing::kRecorded);
  norm_known_[1].Record(compute_.get());  // the first is measured from here
}

Trainer::~Trainer() {
  SynchronizeDevice();
}

IterationResult Trainer::RunIteration(int iteration) {
  const ProfilerRange range("iteration");
  UploadBatch(iteration);
  reducer_.Begin();
  SetToZero(norm_.data(), sizeof(Norm), compute_.get());
  model_.SetLossScale(scaler_.scale());
  RunPipeline();
  reducer_.Finish();

  const int parity = iterations_run_++ % 2;
  const Event& now = norm_known_[parity];
  const Event& before = norm_known_[1 - parity];
  const Norm norm = ReduceNorm(iteration, now);
  const double host_now = HostSeconds();

  IterationResult result;
  result.loss = norm.loss;
  result.loss_scale = scaler_.scale();
  result.gradient_norm = std::sqrt(norm.square_sum) / scaler_.scale();
  result.skipped = !std::isfinite(result.gradient_norm);
  result.device_seconds = now.MillisecondsSince(before) * 1e-3;
  result.host_seconds = host_now - std::exchange(host_time_of_norm_, host_now);
  if (!result.skipped) {
    Update(result.gradient_norm);
  }
  scaler_.Update(!result.skipped);
  return result;
}

void Trainer::UploadBatch(int iteration) {
  if (!context_.first_stage() && !context_.last_stage()) {
    return;
  }
  // The previous iteration's copy has ended: its norm was waited for.
  const size_t rows = shape_.rows();
  const size_t labels = rows * shape_.micro_batches;
  for (int i = 0; i < shape_.micro_batches; ++i) {
    data_.Fill(iteration, context_.at.dp, i, shape_.PositionsOf(context_.at.cp),
               host_batch_.data() + i * rows, host_batch_.data() + labels + i * rows);
  }
  CopyToDevice(batch_.data(), host_batch_.data(), 2 * labels * sizeof(int),
               compute_.get());
}

void Trainer::RunPipeline() {
  PipelineBuffers buffers;
  for (const PipelineStep& step : schedule_) {
    switch (step.kind) {
      case PipelineStep::Kind::kForward:
        buffers.output = model_.Forward(step.work, std::move(buffers.input));
        break;
      case PipelineStep::Kind::kBackward:
        buffers.input_gradient =
            model_.Backward(step.work, std::move(buffers.output_gradient));
        break;
      case PipelineStep::Kind::kExchange:
        link_.Exchange(step, &buffers);
        break;
    }
  }
}

// What each rank's gradient would have come to where one of them overflows. Said by the
// host, so that it holds where no kernel computes, too.
void Trainer::StateOverflow() {
  const bool here = groups_.world().rank() == arguments_.overflow_rank;
  // What was read last iteration is not needed any more.
  host_norm_[0].square_sum = here ? std::numeric_limits<float>::infinity() : 0.0f;
  CopyToDevice(&norm_.data()->square_sum, &host_norm_[0].square_sum, sizeof(float),
               compute_.get());
}

Trainer::Norm Trainer::ReduceNorm(int iteration, const Event& known) {
  const ProfilerRange range("gradient norm");
  optimizer_.GradientSquareSum(&norm_.data()->square_sum);
  if (arguments_.overflow_rank >= 0 && iteration == arguments_.overflow_iteration) {
    StateOverflow();
  }
  static_assert(sizeof(Norm) == 2 * sizeof(float));
  if (shape_.world_size() > 1) {
    float* sums = &norm_.data()->square_sum;
    groups_.world().AllReduce(sums, sums, 2, Reduction::kSum, compute_.get());
  }
  if (arguments_.extra_all_reduce) {
    groups_.world().AllReduce(&norm_.data()->square_sum, again_.data(), 1,
                              Reduction::kMax, compute_.get());
  }
  CopyToHost(host_norm_.data(), norm_.data(), sizeof(Norm), compute_.get());
  known.Record(compute_.get());
  known.Synchronize();
  return host_norm_[0];
}

void Trainer::Update(float norm) {
  const ProfilerRange range("optimizer");
  const float limit = arguments_.clip_grad;
  const bool clip = limit > 0.0f && norm > limit;
  optimizer_.Step(arguments_.lr,
                  (clip ? limit / (norm + kClipEpsilon) : 1.0f) / scaler_.scale());
}

void Trainer::Save(const std::string& folder, int next_iteration) {
  const ProfilerRange range("save");
  SaveCheckpoint(
      {folder, groups_.world().rank(), arguments_.bucket_mb}, shape_,
      {next_iteration, optimizer_.steps(), scaler_.scale(), scaler_.good_steps()},
      optimizer_.State(), compute_.get());
}

int Trainer::Load(const std::string& folder) {
  const ProfilerRange range("load");
  const TrainingState state =
      LoadCheckpoint({folder, groups_.world().rank(), arguments_.bucket_mb}, shape_,
                     optimizer_.State(), compute_.get());
  optimizer_.Restore(state.optimizer_steps);
  scaler_.Restore(state.loss_scale, state.good_steps);
  return state.next_iteration;
}

}  // namespace gpt
