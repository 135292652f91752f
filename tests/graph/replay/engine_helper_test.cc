// Questions of threads that issue no work: answered, and of no effect on their rank.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

class EngineHelperTest : public EngineFixture {
 protected:
  // `b`: the answer that a query's program holds.
  uint64_t Ask(int rank, OpKind kind, uint32_t target, uint32_t b = 0) {
    Op op = Make(kind);
    op.from_helper = 1;
    op.a = op.lane = target;
    op.b = b;
    P(rank).Append(op);
    return P(rank).size() - 1;
  }
  void Record(int rank, uint32_t token) { OnToken(OpKind::kRecordToken, rank, token); }
  // Two ranks with a second communicator, 2, so that one can be pending beside the
  // other.
  void MakePair() {
    MakeRanks(2);
    job.groups.push_back({"pair", {0, 1}});
    Create(0, 2, 1, 0);
    Create(1, 2, 1, 1);
  }
  // Rank 0's collective on communicator 2 is pending until rank 0 has sent something:
  // only then does rank 1 join.
  void SendThenMeet() {
    Transfers(0, {{5000, 1, 1}}, 2);
    Transfers(1, {{5000, 0, 0}}, 2);
    Wait(1, 2);
    Collective(1, {}, 2);
  }
  // The helper's own clock after its wait.
  int64_t Told(int rank, uint64_t op) { return observer.answers.at({rank, op}).ns; }
};

TEST_F(EngineHelperTest, AWaitForWhatIsKnownDoesNotMoveTheHost) {
  MakeRanks(1, false);
  Work(0, 1000);
  Record(0, 1);
  const uint64_t on_token = Ask(0, OpKind::kHostWaitToken, 1);
  const uint64_t on_lane = Ask(0, OpKind::kHostWaitLane, 1);
  const uint64_t clock = Ask(0, OpKind::kAskClock, 1);
  Host(0, 7);
  RunAll();
  EXPECT_EQ(Told(0, on_token), kLatency + 1000);
  EXPECT_EQ(Told(0, on_lane), kLatency + 1000);
  EXPECT_EQ(Told(0, clock), 0);
  EXPECT_EQ(HostEnd(0), 7);
  EXPECT_EQ(engine->result(0).host_waited.nanoseconds(), 0);
}

// The rank itself brings about what its helper waits for: if the wait held the rank's
// ops up, nothing would ever move.
TEST_F(EngineHelperTest, AWaitForWhatIsPendingLetsTheRankGoOn) {
  MakePair();
  Collective(0, {}, 2);
  Record(0, 1);
  const uint64_t on_token = Ask(0, OpKind::kHostWaitToken, 1);
  const uint64_t on_lane = Ask(0, OpKind::kHostWaitLane, 1);
  SendThenMeet();
  Host(0, 7);
  RunAll();
  const int64_t end = EndOf("collective pair 0 0 0");
  EXPECT_EQ(Told(0, on_token), end);
  EXPECT_EQ(Told(0, on_lane), end);
  EXPECT_EQ(HostEnd(0), 2 * Created() + 7);
}

TEST_F(EngineHelperTest, AQueryIsAnsweredByTheClockAtItsPlace) {
  MakeRanks(1, false);
  Work(0, 1000);
  Record(0, 1);
  const uint64_t early = Ask(0, OpKind::kQueryToken, 1, kAnswerUnknown);
  Host(0, 5000);
  const uint64_t late = Ask(0, OpKind::kQueryLane, 1, kAnswerUnknown);
  RunAll();
  EXPECT_FALSE(observer.queries.at({0, early}));
  EXPECT_TRUE(observer.queries.at({0, late}));
  EXPECT_EQ(HostEnd(0), 5000);
}

// Nobody can move, and the helper asks for what may have ended: "not yet" is exact.
TEST_F(EngineHelperTest, AnOpenQueryIsDecided) {
  MakePair();
  Collective(0, {}, 2);
  Record(0, 1);
  Host(0, 100'000);
  const uint64_t asked = Ask(0, OpKind::kQueryToken, 1, kAnswerUnknown);
  SendThenMeet();
  for (auto& program : programs)
    program->Close();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_FALSE(engine->Finished());
  EXPECT_TRUE(engine->DecideOldestQuery());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->Finished());
  EXPECT_FALSE(observer.queries.at({0, asked}));
  EXPECT_EQ(engine->result(0).divergences, 0u);
}

TEST_F(EngineHelperTest, VirtualRanksPassThemBy) {
  MakeRanks(1, false);
  Work(0, 1000);
  Record(0, 1);
  Ask(0, OpKind::kHostWaitToken, 1);
  Ask(0, OpKind::kQueryToken, 1, kAnswerUnknown);
  Host(0, 7);
  P(0).Close();
  Start(/*real=*/false);
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->Finished());
  EXPECT_EQ(HostEnd(0), 7);
  EXPECT_TRUE(observer.answers.empty());
  EXPECT_EQ(engine->result(0).divergences, 0u);
}

// How often a watchdog ticks depends on real time, so results must not count it.
TEST_F(EngineHelperTest, QuestionsAreNotCountedAsOps) {
  MakeRanks(1, false);
  Work(0, 1000);
  Ask(0, OpKind::kHostWaitLane, 1);
  Ask(0, OpKind::kQueryLane, 1, kAnswerUnknown);
  RunAll();
  EXPECT_EQ(engine->ops(), 1u);
  EXPECT_EQ(engine->result(0).ops, 1u);
}

TEST_F(EngineHelperTest, AReleaseWaitsBesideTheHost) {
  MakeRanks(2);
  Collective(0, {});
  Op release = Make(OpKind::kReleaseCommunicator);
  release.a = 1;
  release.b = static_cast<uint32_t>(ReleaseKind::kDestroy);
  release.from_helper = 1;
  P(0).Append(release);
  const uint64_t asked = P(0).size() - 1;
  Host(0, 7);
  Host(1, 50'000);
  Collective(1, {});
  release.from_helper = 0;
  P(1).Append(release);
  RunAll();
  EXPECT_EQ(Told(0, asked), CollectiveEnd(0));
  EXPECT_EQ(HostEnd(0), Created() + 7);
  EXPECT_EQ(HostEnd(1), CollectiveEnd(1));
}

TEST_F(EngineHelperTest, WorkOfAHelperIsRefused) {
  MakeRanks(1, false);
  Op work = Make(OpKind::kWork);
  work.from_helper = 1;
  P(0).Append(work);
  P(0).Close();
  Start();
  EXPECT_THAT(engine->Run().ToString(), testing::HasSubstr("issues no work"));
}

}  // namespace
}  // namespace vrank::graph
