// Bounds that come with the answer "not yet", and answers that guests gave by them.

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using EngineQueriesTest = EngineFixture;

// A guest answers by such a bound until its clock is there.
TEST_F(EngineQueriesTest, NotYetComesWithALowerBoundOfTheEnd) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});
  Work(0, 100'000);
  OnToken(OpKind::kRecordToken, 0, 1);
  OnToken(OpKind::kQueryToken, 0, 1, 1, 0, kAnswerUnknown);
  Op lane = Make(OpKind::kQueryLane);
  lane.b = kAnswerUnknown;
  P(0).Append(lane);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  for (const uint64_t query : {4, 5}) {
    EXPECT_FALSE(observer.queries.at({0, query}));
    EXPECT_GE(observer.not_before.at({0, query}), 100'000);
  }
}

// What another rank that asks is told may make it issue something.
TEST_F(EngineQueriesTest, ADecisionHoldsUntilTheNextQuery) {
  MakeTwoThatAsk();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  const int64_t first = HostEnd(0);
  EXPECT_TRUE(engine->DecideOldestQuery(first + 70'000));
  EXPECT_EQ(observer.not_before.at({1, 3}), first);
  EXPECT_TRUE(engine->DecideOldestQuery(first + 70'000));
  EXPECT_EQ(observer.not_before.at({0, 3}), first + 70'000);
}

TEST_F(EngineQueriesTest, ALoopThatOnlyAsksBoundsNoOtherRank) {
  MakeTwoThatAsk(kAsksAgain);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  const int64_t first = HostEnd(0);
  EXPECT_TRUE(engine->DecideOldestQuery(first + 70'000));
  EXPECT_EQ(observer.not_before.at({1, 3}), first + 70'000);
}

// The guest has answered by itself, before an end is known.
TEST_F(EngineQueriesTest, AnswersOfTheGuestAreCheckedOnceTheEndIsKnown) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});
  Host(0, 900'000);
  OnToken(OpKind::kRecordToken, 0, 1);
  OnToken(OpKind::kQueryToken, 0, 1, 1, 0, kAnswerNotYet);
  Host(0, 900'000);
  Op lane = Make(OpKind::kQueryLane);
  lane.b = kAnswerNotYet;
  P(0).Append(lane);
  Host(0, 10);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_FALSE(engine->DecideOldestQuery()) << "it waits for nothing";
  Host(1, 1'000'000);
  Transfers(1, {{5000, 0, 1}});
  engine->ProgramChanged(programs[1].get());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(engine->result(0).divergences, 1u) << "the second one alone is wrong";
}

}  // namespace
}  // namespace vrank::graph
