#include "examples/gpt_trainer/pipeline_schedule.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

using Kind = PipelineStep::Kind;
using Work = PipelineStep::Work;

// Runs all ranks. A transfer ends when both sides have come to it, an exchange when all
// its transfers have; between two ranks transfers match in the order in which each side
// comes to them, as in NCCL.
class Pipeline {
 public:
  Pipeline(int ranks, int chunks, int micro_batches)
      : ranks_(ranks), chunks_(chunks), state_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      steps_.push_back(MakePipelineSchedule(rank, ranks, chunks, micro_batches));
    }
  }

  // Empty where all is well.
  std::string Run() {
    bool progress = true;
    while (progress && problem_.empty()) {
      progress = false;
      for (int rank = 0; rank < ranks_ && problem_.empty(); ++rank) {
        while (Advance(rank)) {
          progress = true;
        }
      }
    }
    for (int rank = 0; rank < ranks_ && problem_.empty(); ++rank) {
      if (state_[rank].next != steps_[rank].size()) {
        return "rank " + std::to_string(rank) + " is stuck at step " +
               std::to_string(state_[rank].next);
      }
    }
    return problem_;
  }

  int MostInFlight(int rank) const { return state_[rank].most; }
  // Computed pieces per rank.
  int Count(int rank, Kind kind) const {
    return static_cast<int>(
        std::count_if(steps_[rank].begin(), steps_[rank].end(),
                      [kind](const PipelineStep& step) { return step.kind == kind; }));
  }

 private:
  struct Message {
    std::string what;  // stage that receives it, micro-batch, direction
    int* open;         // transfers that the exchange still waits for
  };
  struct State {
    size_t next = 0;
    bool posted = false;
    int open = 0;
    int in_flight = 0;
    int most = 0;
    // By stage of the model and micro-batch.
    std::map<std::pair<int, int>, int> seen_forward, seen_backward;
    std::vector<std::string> here;  // received, not used yet
  };

  int StageOf(int rank, const Work& work) const { return work.chunk * ranks_ + rank; }
  static std::string Label(bool forward, int stage, int micro_batch) {
    return (forward ? "activation for stage " : "gradient for stage ") +
           std::to_string(stage) + ", micro-batch " + std::to_string(micro_batch);
  }

  void Meet(int from, int to, bool sends, Message message) {
    auto& other = (sends ? receives_ : sends_)[{from, to}];
    if (other.empty()) {
      (sends ? sends_ : receives_)[{from, to}].push_back(std::move(message));
      return;
    }
    if (other.front().what != message.what) {
      problem_ = other.front().what + " met " + message.what;
    }
    --*other.front().open;
    --*message.open;
    other.pop_front();
  }

  void Post(int rank, const PipelineStep& step) {
    State& state = state_[rank];
    const int next = (rank + 1) % ranks_;
    const int previous = (rank + ranks_ - 1) % ranks_;
    state.open = step.send_forward.exists() + step.send_backward.exists() +
                 step.receive_forward.exists() + step.receive_backward.exists();
    if (const Work& work = step.send_forward; work.exists()) {
      Meet(rank, next, true,
           {Label(true, StageOf(rank, work) + 1, work.micro_batch), &state.open});
    }
    if (const Work& work = step.send_backward; work.exists()) {
      Meet(rank, previous, true,
           {Label(false, StageOf(rank, work) - 1, work.micro_batch), &state.open});
    }
    if (const Work& work = step.receive_forward; work.exists()) {
      state.here.push_back(Label(true, StageOf(rank, work), work.micro_batch));
      Meet(previous, rank, false, {state.here.back(), &state.open});
    }
    if (const Work& work = step.receive_backward; work.exists()) {
      state.here.push_back(Label(false, StageOf(rank, work), work.micro_batch));
      Meet(next, rank, false, {state.here.back(), &state.open});
    }
  }

  // Whether the input of this work has come, or needs not come.
  bool TakeInput(State& state, bool forward, int stage, int micro_batch) {
    if (forward ? stage == 0 : stage == ranks_ * chunks_ - 1) {
      return true;
    }
    const auto found = std::find(state.here.begin(), state.here.end(),
                                 Label(forward, stage, micro_batch));
    if (found == state.here.end()) {
      return false;
    }
    state.here.erase(found);
    return true;
  }

  void Compute(int rank, const PipelineStep& step) {
    State& state = state_[rank];
    const bool forward = step.kind == Kind::kForward;
    const int stage = StageOf(rank, step.work);
    if (!TakeInput(state, forward, stage, step.work.micro_batch)) {
      problem_ = "no " + Label(forward, stage, step.work.micro_batch);
    }
    const std::pair piece{stage, step.work.micro_batch};
    auto& seen = forward ? state.seen_forward : state.seen_backward;
    if (seen[piece]++ != 0 || (!forward && state.seen_forward[piece] != 1)) {
      problem_ = "twice, or backward before forward";
    }
    state.in_flight += forward ? 1 : -1;
    state.most = std::max(state.most, state.in_flight);
  }

  bool Advance(int rank) {
    State& state = state_[rank];
    if (state.next == steps_[rank].size() || !problem_.empty()) {
      return false;
    }
    const PipelineStep& step = steps_[rank][state.next];
    if (step.kind != Kind::kExchange) {
      Compute(rank, step);
      ++state.next;
      return true;
    }
    if (!state.posted) {
      Post(rank, step);
      state.posted = true;
    }
    if (state.open > 0) {
      return false;
    }
    state.posted = false;
    ++state.next;
    return true;
  }

  int ranks_;
  int chunks_;
  std::vector<std::vector<PipelineStep>> steps_;
  std::vector<State> state_;
  std::map<std::pair<int, int>, std::deque<Message>> sends_, receives_;
  std::string problem_;
};

TEST(PipelineScheduleTest, CompletesWithoutDeadlockAndInOrder) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      Pipeline pipeline(ranks, 1, micro_batches);
      ASSERT_EQ(pipeline.Run(), "") << ranks << " ranks, " << micro_batches;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(pipeline.Count(rank, Kind::kForward), micro_batches);
        EXPECT_EQ(pipeline.MostInFlight(rank), std::min(ranks - rank, micro_batches));
      }
    }
  }
}

TEST(PipelineScheduleTest, InterleavedCompletesWithoutDeadlockAndInOrder) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int rounds = 1; rounds <= 4; ++rounds) {
        Pipeline pipeline(ranks, chunks, rounds * ranks);
        ASSERT_EQ(pipeline.Run(), "")
            << ranks << " ranks, " << chunks << " chunks, " << rounds << " rounds";
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(pipeline.Count(rank, Kind::kBackward), rounds * ranks * chunks);
        }
      }
    }
  }
}

TEST(PipelineScheduleTest, SingleStageExchangesNothing) {
  EXPECT_EQ(Pipeline(1, 1, 3).Count(0, Kind::kExchange), 0);
}

}  // namespace
}  // namespace gpt
