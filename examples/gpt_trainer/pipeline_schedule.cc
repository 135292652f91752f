// The first stage has no previous one and the last no next one: their exchanges vanish.

#include "examples/gpt_trainer/pipeline_schedule.h"

#include <algorithm>

namespace gpt {
namespace {

class Builder {
 public:
  Builder(int stage, int stages) : first_(stage == 0), last_(stage == stages - 1) {}

  void Forward(int micro_batch) {
    steps_.push_back({PipelineStep::Kind::kForward, micro_batch, PipelineStep::kNone});
  }
  void Backward(int micro_batch) {
    steps_.push_back({PipelineStep::Kind::kBackward, PipelineStep::kNone, micro_batch});
  }
  void WithPrevious(int receive_forward, int send_backward) {
    if (!first_) {
      steps_.push_back(
          {PipelineStep::Kind::kExchangeWithPrevious, receive_forward, send_backward});
    }
  }
  void WithNext(int send_forward, int receive_backward) {
    if (!last_) {
      steps_.push_back(
          {PipelineStep::Kind::kExchangeWithNext, send_forward, receive_backward});
    }
  }
  std::vector<PipelineStep> Take() { return std::move(steps_); }

 private:
  bool first_;
  bool last_;
  std::vector<PipelineStep> steps_;
};

}  // namespace

int WarmUpMicroBatches(int stage, int stages, int micro_batches) {
  return std::min(stages - stage - 1, micro_batches);
}

int MicroBatchesInFlight(int stage, int stages, int micro_batches) {
  return std::min(stages - stage, micro_batches);
}

std::vector<PipelineStep> OneForwardOneBackward(int stage, int stages,
                                                int micro_batches) {
  constexpr int kNone = PipelineStep::kNone;
  const int warm_up = WarmUpMicroBatches(stage, stages, micro_batches);
  Builder builder(stage, stages);
  for (int i = 0; i < warm_up; ++i) {
    builder.WithPrevious(i, kNone);
    builder.Forward(i);
    builder.WithNext(i, kNone);
  }
  if (warm_up < micro_batches) {
    builder.WithPrevious(warm_up, kNone);
  }
  for (int backward = 0; backward < micro_batches - warm_up; ++backward) {
    const int forward = warm_up + backward;
    builder.Forward(forward);
    builder.WithNext(forward, backward);
    builder.Backward(backward);
    const bool more = forward + 1 < micro_batches;
    builder.WithPrevious(more ? forward + 1 : kNone, backward);
  }
  for (int backward = micro_batches - warm_up; backward < micro_batches; ++backward) {
    builder.WithNext(kNone, backward);
    builder.Backward(backward);
    builder.WithPrevious(kNone, backward);
  }
  return builder.Take();
}

}  // namespace gpt
