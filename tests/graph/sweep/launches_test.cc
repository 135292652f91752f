// Waits for a place in the launch queue that nobody can feel are left out.

#include "graph/sweep/launches.h"

#include <vector>

#include <gtest/gtest.h>

#include "graph/program/program.h"
#include "graph/sweep/code.h"

namespace vrank::graph {
namespace {

// Without launches in between, a full queue is felt; with a slow device it is not.
TEST(SweepLaunchesTest, LeavesOutLaunchWaitsThatCannotBeFelt) {
  const auto felt = [](int64_t duration) {
    Program program(true);
    for (int i = 0; i < 100; ++i) {
      Op op;
      op.kind = OpKind::kWork;
      op.lane = 1;
      op.launch = 1;
      op.host_ns = 1000;
      op.value = duration;
      program.Append(op);
    }
    Op wait;
    wait.kind = OpKind::kHostWaitLane;
    wait.lane = 1;
    program.Append(wait);
    program.Close();
    SweepCodeOptions options;
    options.engine.launch_queue_depth = 10;
    options.engine.launch_latency = Duration::Nanoseconds(2000);
    return FeltLaunchWaits(program, options, std::vector<bool>(program.size())).size();
  };
  EXPECT_EQ(felt(5000), 0u);
  EXPECT_GT(felt(10), 50u);
}

}  // namespace
}  // namespace vrank::graph
