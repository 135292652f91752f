// A builder leaves out what the ends of the model do not need: an exchange of nothing
// vanishes.

#include "examples/gpt_trainer/pipeline_schedule.h"

#include <algorithm>
#include <utility>

namespace gpt {
namespace {

using Kind = PipelineStep::Kind;
using Work = PipelineStep::Work;

class Builder {
 public:
  Builder(int rank, int ranks, int chunks)
      : first_(rank == 0), last_(rank == ranks - 1), chunks_(chunks) {}

  void Forward(const Work& work) {
    steps_.push_back({Kind::kForward, work, {}, {}, {}, {}});
  }
  void Backward(const Work& work) {
    steps_.push_back({Kind::kBackward, work, {}, {}, {}, {}});
  }
  // Pieces of work that do not exist, or have no neighbour, move nothing.
  void Exchange(const Work& send_forward, const Work& receive_forward,
                const Work& send_backward, const Work& receive_backward) {
    PipelineStep step{Kind::kExchange,
                      {},
                      WithNext(send_forward),
                      WithPrevious(receive_forward),
                      WithPrevious(send_backward),
                      WithNext(receive_backward)};
    if (step.send_forward.exists() || step.receive_forward.exists() ||
        step.send_backward.exists() || step.receive_backward.exists()) {
      steps_.push_back(step);
    }
  }
  std::vector<PipelineStep> Take() { return std::move(steps_); }

 private:
  Work WithNext(const Work& work) const {
    return last_ && work.chunk == chunks_ - 1 ? Work() : work;
  }
  Work WithPrevious(const Work& work) const {
    return first_ && work.chunk == 0 ? Work() : work;
  }

  bool first_;
  bool last_;
  int chunks_;
  std::vector<PipelineStep> steps_;
};

std::vector<PipelineStep> OneForwardOneBackward(int rank, int ranks,
                                                int micro_batches) {
  const Work none;
  const auto work = [micro_batches](int i) {
    return i < micro_batches ? Work{i, 0} : Work();
  };
  const int warm_up = std::min(ranks - rank - 1, micro_batches);
  Builder builder(rank, ranks, 1);
  for (int i = 0; i < warm_up; ++i) {
    builder.Exchange(none, work(i), none, none);
    builder.Forward(work(i));
    builder.Exchange(work(i), none, none, none);
  }
  builder.Exchange(none, work(warm_up), none, none);
  for (int backward = 0; backward < micro_batches; ++backward) {
    const int forward = warm_up + backward;
    if (forward < micro_batches) {
      builder.Forward(work(forward));
    }
    builder.Exchange(work(forward), none, none, work(backward));
    builder.Backward(work(backward));
    builder.Exchange(none, work(forward + 1), work(backward), none);
  }
  return builder.Take();
}

// As in Megatron-LM's forward_backward_pipelining_with_interleaving.
std::vector<PipelineStep> Interleaved(int rank, int ranks, int chunks,
                                      int micro_batches) {
  const Work none;
  const int total = micro_batches * chunks;
  const auto nth = [=](int i, bool forward) {
    if (i >= total) {
      return Work();
    }
    const int chunk = i % (ranks * chunks) / ranks;
    return Work{i / (ranks * chunks) * ranks + i % ranks,
                forward ? chunk : chunks - 1 - chunk};
  };
  const auto forward = [&](int i) { return nth(i, true); };
  const auto backward = [&](int i) { return nth(i, false); };
  // With a micro-batch per rank nothing alternates: all forwards, then all backwards.
  const int warm_up =
      micro_batches == ranks
          ? total
          : std::min(total, (ranks - rank - 1) * 2 + (chunks - 1) * ranks);
  Builder builder(rank, ranks, chunks);
  builder.Exchange(none, forward(0), none, none);
  for (int i = 0; i < warm_up; ++i) {
    builder.Forward(forward(i));
    builder.Exchange(forward(i), forward(i + 1), none,
                     i + 1 == warm_up ? backward(0) : none);
  }
  for (int i = 0; i < total; ++i) {
    const int next = warm_up + i;
    if (next < total) {
      builder.Forward(forward(next));
    }
    builder.Backward(backward(i));
    builder.Exchange(forward(next), forward(next + 1), backward(i), backward(i + 1));
  }
  return builder.Take();
}

}  // namespace

std::vector<PipelineStep> MakePipelineSchedule(int rank, int ranks, int chunks,
                                               int micro_batches) {
  return chunks == 1 ? OneForwardOneBackward(rank, ranks, micro_batches)
                     : Interleaved(rank, ranks, chunks, micro_batches);
}

}  // namespace gpt
