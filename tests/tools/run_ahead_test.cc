#include "tools/run_ahead.h"

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

// Iterations of a rank, one behind the other from 0 on.
class RunAheadTest : public ::testing::Test {
 protected:
  RunAheadTest() {
    report_.ranks.emplace_back();
    rank().real = true;
  }
  RankReport& rank() { return report_.ranks[0]; }
  void Iteration(int64_t length_ns, int64_t waited_ns) {
    emulator::Iteration iteration;
    iteration.begin.ns = rank().end_ns;
    iteration.end.ns = rank().end_ns += length_ns;
    iteration.waited_by_begin = Duration::Nanoseconds(rank().waited_ns);
    iteration.waited_by_end = Duration::Nanoseconds(rank().waited_ns += waited_ns);
    rank().iterations.push_back(iteration);
  }
  // The host waits outside of all iterations.
  void Wait(int64_t ns) {
    rank().end_ns += ns;
    rank().waited_ns += ns;
  }
  JobReport report_;
};

TEST_F(RunAheadTest, EachIterationWaitsForItsWork) {
  Iteration(9000, 10);
  for (int i = 0; i < 5; ++i)
    Iteration(1000 + i, 400);
  Wait(2000);  // for something else
  EXPECT_FALSE(FindRunAhead(report_).has_value());
}

TEST_F(RunAheadTest, AHostThatTheGpuWaitsFor) {
  for (int i = 0; i < 5; ++i)
    Iteration(i == 2 ? 5000 : 1000, 0);
  EXPECT_FALSE(FindRunAhead(report_).has_value());
}

TEST_F(RunAheadTest, AWaitBehindTheLoop) {
  for (int i = 0; i < 5; ++i)
    Iteration(100, 0);
  Wait(8000);
  const auto ahead = FindRunAhead(report_);
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->iterations, 4u);
  EXPECT_EQ(ahead->that_wait, 0u);
  EXPECT_EQ(ahead->waited_outside_ns, 8000);
  EXPECT_EQ(ahead->mean_iteration_ns, (4 * 100 + 8000) / 5);
}

TEST_F(RunAheadTest, WaitsBetweenIterations) {
  for (int i = 0; i < 5; ++i) {
    Iteration(100, 0);
    Wait(900);
  }
  const auto ahead = FindRunAhead(report_);
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->waited_outside_ns, 5 * 900);
  EXPECT_EQ(ahead->mean_iteration_ns, (4 * 1000 + 900) / 5);
}

TEST_F(RunAheadTest, EveryFifthIterationWaits) {
  for (int i = 0; i < 11; ++i)
    Iteration(i % 5 == 0 ? 4600 : 100, i % 5 == 0 ? 4500 : 0);
  const auto ahead = FindRunAhead(report_);
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->iterations, 10u);
  EXPECT_EQ(ahead->that_wait, 2u);
  EXPECT_EQ(ahead->waited_outside_ns, 0);
  EXPECT_EQ(ahead->mean_iteration_ns, 1000);
}

TEST_F(RunAheadTest, TwoIterationsAndRealGpusShowNothing) {
  Iteration(100, 0);
  Iteration(100, 0);
  Wait(8000);
  EXPECT_FALSE(FindRunAhead(report_).has_value());
  Iteration(100, 0);
  EXPECT_TRUE(FindRunAhead(report_).has_value());
  report_.real_gpu = true;
  EXPECT_FALSE(FindRunAhead(report_).has_value());
}

}  // namespace
}  // namespace vrank::tools
