// What a stage of 1F1B does is what another stage does, more or less often.

#include "graph/scale/stage_schedule.h"

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/program_comparison.h"
#include "graph/scale/token_order.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;

std::vector<std::array<size_t, 3>> Repeats(const std::string& passages) {
  std::vector<uint64_t> numbers(passages.begin(), passages.end());
  std::vector<std::array<size_t, 3>> found;
  for (const PassageRepeat& repeat : FindRepeats(numbers))
    found.push_back({repeat.first, repeat.period, repeat.count});
  return found;
}

TEST(FindRepeatsTest, FromTheLeftTheShortestFirst) {
  using Found = std::array<size_t, 3>;
  EXPECT_THAT(Repeats(""), ElementsAre());
  EXPECT_THAT(Repeats("abc"), ElementsAre());
  EXPECT_THAT(Repeats("xababaay"), ElementsAre(Found{1, 2, 2}, Found{5, 1, 2}));
  EXPECT_THAT(Repeats("aabaab"), ElementsAre(Found{0, 1, 2}, Found{3, 1, 2}));
  EXPECT_THAT(Repeats("abcabcabc"), ElementsAre(Found{0, 3, 3}));
}

Op Make(OpKind kind, uint32_t lane, int64_t value, uint32_t a = 0, uint32_t b = 0) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.value = value;
  op.a = a;
  op.b = b;
  return op;
}

// What waits here waits for the record before the latest.
constexpr uint32_t kLateLane = 3;

// A stage of 1F1B, with its transfers on a lane of their own and events between.
class Stage {
 public:
  Stage(int32_t behind, int32_t micro_batches) : program_(/*retain=*/true) {
    program_.Append(Make(OpKind::kMemory, 0, 1000));
    for (int32_t iteration = 0; iteration < 2; ++iteration) {
      for (int32_t i = 0; i < behind; ++i)
        Forward(iteration);
      for (int32_t i = behind; i < micro_batches; ++i) {
        Forward(iteration);
        Backward();
      }
      for (int32_t i = 0; i < behind; ++i)
        Backward();
      Work("optimizer", 1);
      Record(1);
      program_.Append(Make(OpKind::kHostWaitToken, 0, 0, token_));
    }
    for (int32_t i = 0; i < held_; ++i)
      program_.Append(Make(OpKind::kMemory, 0, -7));
    program_.Close();
  }
  const Program& program() const { return program_; }

 private:
  static constexpr uint32_t kTransferLane = 2;

  void Work(const std::string& name, uint32_t lane) {
    program_.Append(Make(OpKind::kWork, lane, 100, program_.AddName(name)));
  }
  void Record(uint32_t lane) {
    before_ = token_;
    token_ = token_ % 3 + 1;  // out of a pool of three
    program_.Append(Make(OpKind::kRecordToken, lane, 0, token_));
  }
  // Peers: 0 is the stage before, 2 the one behind.
  void Transfer(uint32_t peer, bool is_send, uint32_t after, uint32_t before) {
    Record(after);
    program_.Append(Make(OpKind::kWaitToken, kTransferLane, 0, token_));
    program_.Append(Make(OpKind::kTransfers, kTransferLane, 0, 9,
                         program_.AddTransfers({{64, peer, is_send ? 1u : 0u}})));
    Record(kTransferLane);
    program_.Append(Make(OpKind::kWaitToken, before, 0, token_));
  }
  void Forward(int32_t iteration) {
    Transfer(0, false, 1, 1);
    ++live_;
    if (iteration == 0 && live_ > held_) {
      program_.Append(Make(OpKind::kMemory, 0, 7));
      ++held_;
    }
    Work("forward", 1);
    Record(1);
    Work("forward", 1);
    Record(1);
    program_.Append(Make(OpKind::kWaitToken, kLateLane, 0, before_));
    Transfer(2, true, 1, 1);
  }
  void Backward() {
    --live_;
    Transfer(2, false, 1, 1);
    Work("backward", 1);
    Transfer(0, true, 1, 1);
  }

  Program program_;
  uint32_t token_ = 0, before_ = 0;  // the latest record, and the one before
  int32_t live_ = 0, held_ = 0;
};

const RelativeStages kStages = {{9, {-1, 0, 1}}};

StageSchedule ScheduleOf(const Stage& stage) {
  return StageSchedule(&stage.program(), kStages, StageSchedule::Memory::kCompared);
}

TEST(StageScheduleTest, CountsOfAStageMakeAnotherOne) {
  constexpr int32_t kMicroBatches = 14;
  const Stage long_warm_up(4, kMicroBatches);
  const StageSchedule schedule = ScheduleOf(long_warm_up);
  for (int32_t behind = 1; behind <= 8; ++behind) {
    SCOPED_TRACE(behind);
    const Stage other(behind, kMicroBatches);
    const auto counts = schedule.CountsIn(ScheduleOf(other));
    ASSERT_TRUE(counts.has_value());
    const std::unique_ptr<Program> made = schedule.WithCounts(*counts);
    EXPECT_TRUE(made->closed());
    EXPECT_EQ(FirstDifference(*made, other.program()), "");
  }
}

TEST(StageScheduleTest, AnotherScheduleHasNoCounts) {
  const Stage stage(4, 14);
  const StageSchedule swapped(&stage.program(), {{9, {1, 0, -1}}},
                              StageSchedule::Memory::kCompared);
  EXPECT_FALSE(ScheduleOf(stage).CountsIn(swapped).has_value());
  Program longer(/*retain=*/true);
  for (uint64_t i = 0; i < stage.program().size(); ++i) {
    Op op = stage.program().op(i);
    if (op.kind == OpKind::kWork)
      op.a = longer.AddName(stage.program().details().names[op.a]);
    if (op.kind == OpKind::kTransfers)
      op.b = longer.AddTransfers(stage.program().details().transfer_groups[op.b]);
    longer.Append(op);
  }
  longer.Append(Make(OpKind::kHostWaitLane, 1, 0));
  longer.Close();
  const StageSchedule other(&longer, kStages, StageSchedule::Memory::kCompared);
  EXPECT_FALSE(ScheduleOf(stage).CountsIn(other).has_value());
}

// Whatever is left out or repeated, each wait is for the record it was for.
TEST(StageScheduleTest, CopiesKeepTheirEvents) {
  std::mt19937 random(7);
  const Stage stage(5, 12);
  const StageSchedule schedule = ScheduleOf(stage);
  for (int round = 0; round < 50; ++round) {
    std::vector<size_t> counts;
    for (const PassageRepeat& repeat : schedule.repeats())
      counts.push_back(random() % (2 * repeat.count));
    const std::unique_ptr<Program> made = schedule.WithCounts(counts);
    TokenReader tokens;
    for (uint64_t i = 0; i < made->size(); ++i) {
      const Op& op = made->op(i);
      const uint64_t age = tokens.Pass(op);
      if (op.kind == OpKind::kWaitToken || op.kind == OpKind::kHostWaitToken) {
        EXPECT_EQ(age, op.lane == kLateLane ? 2u : 1u);
      }
    }
  }
}

}  // namespace
}  // namespace vrank::graph
