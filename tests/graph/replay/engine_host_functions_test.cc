// Host functions of real ranks, which last until they return.

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using EngineHostFunctionsTest = EngineFixture;

TEST_F(EngineHostFunctionsTest, AHostFunctionLastsUntilItReturns) {
  MakeRanks(1);
  Work(0, 1000);
  Op function = Make(OpKind::kHostFunc, 5);
  function.lane = 1;
  function.b = kDurationUnknown;
  P(0).Append(function);
  Work(0, 300);
  Op wait = Make(OpKind::kHostWaitLane);
  wait.lane = 1;
  P(0).Append(wait);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  const int64_t start = observer.told.at("hostfunc 0 2").time.ns;
  EXPECT_EQ(observer.answers.count({0, 4}), 0u);
  engine->EndHostFunction(0, 2, 70'000);
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(observer.answers.at({0, 4}).ns, start + 70'000 + 300);
  EXPECT_EQ(P(0).op(2).value, 70'000);
  EXPECT_EQ(observer.told.count("told twice: hostfunc 0 2"), 0u);
}

TEST_F(EngineHostFunctionsTest, AFollowersHostFunctionLastsAsLongAsItsLeaders) {
  MakeRanks(1, false);
  Work(0, 1000);
  Op function = Make(OpKind::kHostFunc, 5);
  function.b = kDurationUnknown;
  P(0).Append(function);
  P(0).Append(function);
  Wait(0);
  P(0).Close();
  Engine both({.launch_latency = Duration::Nanoseconds(kLatency)}, &network,
              &membership, &observer);
  both.AddRank(0, programs[0].get(), {.real = true});
  both.AddRank(
      1, programs[0].get(),
      {.follower = true, .leader = 0, .work_numerator = 3, .work_denominator = 1});
  ASSERT_TRUE(both.Run().ok());
  for (const uint64_t op : {1, 2}) {
    both.EndHostFunction(0, op, 70'000);
    ASSERT_TRUE(both.Run().ok());
  }
  ASSERT_TRUE(both.Finished());
  EXPECT_EQ(both.result(0).end.ns, kLatency + 1000 + 2 * 70'000);
  EXPECT_EQ(both.result(1).end.ns, kLatency + 3000 + 2 * 70'000);
}

}  // namespace
}  // namespace vrank::graph
