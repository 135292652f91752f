#include "examples/gpt_trainer/pipeline_schedule.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace gpt {
namespace {

using Kind = PipelineStep::Kind;

// Runs all stages; an exchange completes only when both neighbours have reached it.
// Returns the most micro-batches in flight per stage; empty on a deadlock or mismatch.
std::vector<int> Simulate(int stages, int micro_batches) {
  std::vector<std::vector<PipelineStep>> steps;
  for (int stage = 0; stage < stages; ++stage) {
    steps.push_back(OneForwardOneBackward(stage, stages, micro_batches));
  }
  std::vector<size_t> next(stages, 0);
  std::vector<int> in_flight(stages, 0);
  std::vector<int> most(stages, 0);
  std::vector<int> forwards(stages, 0);
  std::vector<int> backwards(stages, 0);
  bool progress = true;
  while (progress) {
    progress = false;
    for (int stage = 0; stage < stages; ++stage) {
      if (next[stage] == steps[stage].size()) {
        continue;
      }
      const PipelineStep& step = steps[stage][next[stage]];
      if (step.kind == Kind::kForward || step.kind == Kind::kBackward) {
        const bool forward = step.kind == Kind::kForward;
        int& count = forward ? forwards[stage] : backwards[stage];
        if ((forward ? step.forward : step.backward) != count++) {
          return {};
        }
        in_flight[stage] += forward ? 1 : -1;
        most[stage] = std::max(most[stage], in_flight[stage]);
        ++next[stage];
        progress = true;
      } else if (step.kind == Kind::kExchangeWithNext &&
                 next[stage + 1] < steps[stage + 1].size()) {
        const PipelineStep& other = steps[stage + 1][next[stage + 1]];
        if (other.kind == Kind::kExchangeWithPrevious) {
          if (other.forward != step.forward || other.backward != step.backward) {
            return {};
          }
          ++next[stage];
          ++next[stage + 1];
          progress = true;
        }
      }
    }
  }
  for (int stage = 0; stage < stages; ++stage) {
    if (next[stage] != steps[stage].size() || forwards[stage] != micro_batches ||
        backwards[stage] != micro_batches) {
      return {};
    }
  }
  return most;
}

TEST(PipelineScheduleTest, CompletesWithoutDeadlockAndInOrder) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      const std::vector<int> most = Simulate(stages, micro_batches);
      ASSERT_EQ(most.size(), static_cast<size_t>(stages))
          << stages << " stages, " << micro_batches << " micro-batches";
      for (int stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(most[stage], MicroBatchesInFlight(stage, stages, micro_batches));
      }
    }
  }
}

TEST(PipelineScheduleTest, SingleStageExchangesNothing) {
  for (const PipelineStep& step : OneForwardOneBackward(0, 1, 3)) {
    EXPECT_TRUE(step.kind == Kind::kForward || step.kind == Kind::kBackward);
  }
}

}  // namespace
}  // namespace gpt
