#include "emulator/world/iteration_log.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using graph::Op;
using graph::OpKind;
using graph::Stamp;

// A program whose host issues one kernel per iteration, `device_ns` long, and takes
// `host_ns` for it.
class IterationLogTest : public ::testing::Test {
 protected:
  uint64_t Append(const Op& op, int64_t passed_ns) {
    const uint64_t index = program_.size();
    program_.Append(op);
    log_.OnOpPassed(0, index, Stamp{.ns = passed_ns}, Stamp{.ns = passed_ns});
    return index;
  }
  // Ranges named "step" from `begin` to `end` of the host; the kernel ends at `device`.
  void Step(int64_t begin, int64_t end, int64_t device, bool ends_early = false) {
    const uint32_t name = program_.AddName("step");
    Append(Op{.kind = OpKind::kRangeBegin, .a = name}, begin);
    const uint64_t kernel = program_.size();
    const Op work{
        .kind = OpKind::kWork, .launch = 1, .lane = 1, .a = program_.AddName("kernel")};
    if (ends_early) {  // the engine knows the end before the host has passed
      program_.Append(work);
      log_.OnOpEnded(0, kernel, Stamp{}, Stamp{.ns = device});
      log_.OnOpPassed(0, kernel, Stamp{.ns = begin}, Stamp{.ns = begin});
    } else {
      Append(work, begin);
    }
    Append(Op{.kind = OpKind::kRangeEnd, .a = name}, end);
    if (!ends_early)
      log_.OnOpEnded(0, kernel, Stamp{}, Stamp{.ns = device});
  }
  std::vector<int64_t> Lengths(
      graph::IterationSearch search = graph::IterationSearch::kAnnotations) {
    std::vector<int64_t> lengths;
    for (const TimedIteration& one : log_.Find(search).iterations)
      lengths.push_back(one.end.ns - one.begin.ns);
    return lengths;
  }

  graph::Program program_{true};
  IterationLog log_{&program_, [](const std::string& name) { return name == "step"; }};
};

TEST_F(IterationLogTest, AHostThatWaitsForItsDeviceIsTheMeasure) {
  Step(100, 300, 290);
  Step(320, 500, 480, true);
  EXPECT_EQ(Lengths(), (std::vector<int64_t>{200, 180}));
  EXPECT_FALSE(
      log_.Find(graph::IterationSearch::kAnnotations).iterations[0].host_runs_ahead());
}

TEST_F(IterationLogTest, AHostThatRunsAheadIsMeasuredFromCompletionToCompletion) {
  Step(0, 10, 1000);
  Step(10, 20, 2000, true);
  Step(20, 30, 3000);
  Step(30, 4100, 4000);  // reads the loss
  Step(4100, 4110, 5000);
  EXPECT_EQ(Lengths(), (std::vector<int64_t>{1000, 1000, 1000, 1100, 900}));
  EXPECT_TRUE(
      log_.Find(graph::IterationSearch::kAnnotations).iterations[0].host_runs_ahead());
}

TEST_F(IterationLogTest, WithoutAnnotationsItFindsThem) {
  const Op update{.kind = OpKind::kWork,
                  .launch = 1,
                  .lane = 1,
                  .a = program_.AddName("FusedAdamMathFunctor")};
  int64_t now = 0, device = 0;
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 9; ++k) {
      const uint64_t op =
          Append(Op{.kind = OpKind::kWork,
                    .launch = 1,
                    .lane = 1,
                    .a = program_.AddName("kernel" + std::to_string(k))},
                 now += 5);
      log_.OnOpEnded(0, op, Stamp{}, Stamp{.ns = device += 100});
    }
    log_.OnOpEnded(0, Append(update, now += 5), Stamp{}, Stamp{.ns = device += 100});
  }
  EXPECT_TRUE(Lengths().empty());
  EXPECT_EQ(Lengths(graph::IterationSearch::kActions),
            (std::vector<int64_t>{1000, 1000, 1000}));
  EXPECT_EQ(log_.Find(graph::IterationSearch::kActions).evidence,
            graph::IterationEvidence::kOptimizer);
}

TEST_F(IterationLogTest, WorkOfAnAnnotatedProgramTakesNoMemory) {
  Step(0, 10, 1000);
  const size_t before = log_.bytes();
  for (int i = 1; i <= 100; ++i)
    for (int k = 0; k < 100; ++k)
      log_.OnOpEnded(
          0,
          Append(Op{.kind = OpKind::kWork, .launch = 1, .lane = 1}, i * 1000 + k * 10),
          Stamp{}, Stamp{.ns = i * 1000 + k * 10});
  EXPECT_EQ(log_.bytes(), before);
  Step(200'000, 200'010, 200'500);
  EXPECT_EQ(Lengths(), (std::vector<int64_t>{1000, 500}));
}

// What was done before the first range counts for its beginning.
TEST_F(IterationLogTest, AnIterationBeginsBehindWorkThatStillRuns) {
  const uint64_t before = Append(Op{.kind = OpKind::kWork, .launch = 1, .lane = 1}, 5);
  Step(10, 20, 2000);
  EXPECT_TRUE(Lengths().empty());  // it is not complete
  log_.OnOpEnded(0, before, Stamp{}, Stamp{.ns = 1500});
  EXPECT_EQ(Lengths(), (std::vector<int64_t>{500}));
}

TEST_F(IterationLogTest, WorkOfAnotherProgramTakesFewBytes) {
  constexpr int kOps = 10'000;
  for (int i = 0; i < kOps; ++i)
    log_.OnOpEnded(0,
                   Append(Op{.kind = OpKind::kWork, .launch = 1, .lane = 1}, i * 5000),
                   Stamp{}, Stamp{.ns = i * 5000 + 3000, .assumed = i * 3000});
  EXPECT_LE(log_.bytes(), 16u * kOps);
}

}  // namespace
}  // namespace vrank::emulator
