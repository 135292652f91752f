// Communicators of processes with several members, made without waiting, and shrunk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/replay/communicator_table.h"
#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

class EngineCreationTest : public EngineFixture {
 protected:
  // A program per rank; the communicator's members live where `members` says.
  void MakeProcesses(int ranks, std::vector<int32_t> members) {
    MakeRanks(ranks, /*communicator=*/false);
    job.groups[0].members = std::move(members);
  }
  void Shrink(int rank, uint32_t child, std::vector<uint32_t> excluded) {
    Creation call;
    call.parent = 1;
    call.excluded = std::move(excluded);
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = child;
    op.b = P(rank).AddCreation(call);
    P(rank).Append(op);
  }
  void JoinWithoutWaiting(int rank, uint32_t index, uint32_t token) {
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = 1;
    op.b = P(rank).AddCreation(InitOf(job, 0, index));
    op.value = token;
    P(rank).Append(op);
  }
  void Query(int rank, uint32_t token) {
    OnToken(OpKind::kQueryToken, rank, token, 1, 0, kAnswerUnknown);
  }
  void Release(int rank, uint32_t number, ReleaseKind kind, bool from_helper = false) {
    Op op = Make(OpKind::kReleaseCommunicator);
    op.from_helper = from_helper ? 1 : 0;
    op.a = number;
    op.b = static_cast<uint32_t>(kind);
    P(rank).Append(op);
  }

  // Nothing moves until what was aborted is ended.
  void RunToTheAbortAndOn() {
    for (auto& program : programs)
      program->Close();
    Start();
    ASSERT_TRUE(engine->Run().ok());
    EXPECT_FALSE(engine->Finished());
    while (engine->LetOtherThreadsPass())
      ASSERT_TRUE(engine->Run().ok());
    EXPECT_TRUE(engine->Finished());
  }

  CollectiveCall sum_{.count = 1};
};

TEST_F(EngineCreationTest, ProcessesWithSeveralMembersJoinWithAllOfThem) {
  MakeProcesses(2, {0, 0, 1, 1});
  Host(1, 5000);
  for (int rank = 0; rank < 2; ++rank) {
    for (uint32_t local = 0; local < 2; ++local)
      Create(rank, 1 + local, 0, static_cast<uint32_t>(2 * rank) + local);
    for (uint32_t local = 0; local < 2; ++local)
      Collective(rank, sum_, 1 + local, 1 + local);
    Work(rank, 700 * (rank + 1));
    Wait(rank);
  }
  RunAll();
  const int64_t created = 5000 + Created();
  // Every local join is answered with the same clock.
  EXPECT_EQ(EndOf("answer 0 0"), created);
  EXPECT_EQ(EndOf("answer 0 1"), created);
  for (int member = 0; member < 4; ++member)
    EXPECT_EQ(EndOf(fmt::format("collective world 0 {} {}", member, member / 2)),
              EndOf("collective world 0 0 0"));
  EXPECT_EQ(HostEnd(1) - HostEnd(0), 700);
}

TEST_F(EngineCreationTest, MembersOfOneProcessAreEnough) {
  MakeProcesses(1, {0, 0, 0});
  for (uint32_t local = 0; local < 3; ++local)
    Create(0, 1 + local, 0, local);
  for (uint32_t local = 0; local < 3; ++local)
    Collective(0, sum_, 1 + local, 1 + local);
  for (uint32_t local = 0; local < 3; ++local)
    Wait(0, 1 + local);
  RunAll();
  EXPECT_EQ(EndOf("collective world 0 2 0"), HostEnd(0));
}

TEST_F(EngineCreationTest, AHostThatDoesNotWaitLearnsOfTheEndByItsToken) {
  MakeRanks(2, /*communicator=*/false);
  JoinWithoutWaiting(0, 0, 7);
  Query(0, 7);
  Engine& running = Start();
  ASSERT_TRUE(running.Run().ok());
  EXPECT_TRUE(observer.queries.empty());
  ASSERT_TRUE(running.DecideOldestQuery());
  EXPECT_FALSE((observer.queries.at({0, 1})));
  // The other one comes; its own host waits.
  Host(1, 300);
  Create(1, 1, 0, 1);
  OnToken(OpKind::kHostWaitToken, 0, 7);
  Query(0, 7);
  running.ProgramChanged(programs[0].get());
  running.ProgramChanged(programs[1].get());
  ASSERT_TRUE(running.Run().ok());
  EXPECT_EQ(EndOf("answer 0 2"), 300 + Created());
  EXPECT_TRUE((observer.queries.at({0, 3})));
  EXPECT_EQ(observer.told.at("answer 0 0").value, uint64_t{2} << 32);
}

// A program that is played was told once that its communicator exists, here by a thread
// that issues no work. It gets there before the others have joined.
TEST_F(EngineCreationTest, APlayedRankWaitsForWhatItUses) {
  recorded = {0};
  MakeRanks(2, /*communicator=*/false);
  JoinWithoutWaiting(0, 0, 7);
  Host(0, 4000);
  Collective(0, sum_);
  Release(0, 1, ReleaseKind::kDestroy);
  Host(1, 300);
  Create(1, 1, 0, 1);
  Collective(1, sum_);
  RunAll();
  // Its clock is its program's: the questions are in there.
  EXPECT_EQ(CollectiveEnd(0), CollectiveEnd(1));
  EXPECT_GE(CollectiveEnd(0), 4000 + kLatency);
  EXPECT_EQ(HostEnd(0), CollectiveEnd(0));
}

TEST_F(EngineCreationTest, APlayedRankWaitsToSplitWhatItMade) {
  recorded = {0};
  MakeRanks(3, /*communicator=*/false);
  JoinWithoutWaiting(0, 0, 7);
  Host(1, 300);
  for (int rank : {1, 2})
    Create(rank, 1, 0, static_cast<uint32_t>(rank));
  for (int rank : {0, 1})
    Shrink(rank, 2, {2});
  RunAll();
  EXPECT_EQ(observer.told.at("communicator 0 2 world/0.0").value, uint64_t{2} << 32);
}

TEST_F(EngineCreationTest, WhoWithdrawsLeavesTheOthersAWorkingCommunicator) {
  MakeRanks(2, /*communicator=*/false);
  JoinWithoutWaiting(0, 0, 7);
  Release(0, 1, ReleaseKind::kAbort);
  Host(1, 300);
  Create(1, 1, 0, 1);
  RunAll();
  EXPECT_EQ(HostEnd(0), 0);
  EXPECT_EQ(HostEnd(1), 300 + Created());
}

// A watchdog aborts an init that its rank has begun.
TEST_F(EngineCreationTest, AThreadThatIssuesNoWorkWithdraws) {
  for (const bool is_recorded : {false, true}) {
    job = Job();
    programs.clear();
    MakeRanks(2, /*communicator=*/false);
    recorded = is_recorded ? std::set<int32_t>{0} : std::set<int32_t>{};
    JoinWithoutWaiting(0, 0, 7);
    Release(0, 1, ReleaseKind::kAbort, /*from_helper=*/true);
    Host(0, 40);
    Host(1, 300);
    Create(1, 1, 0, 1);
    RunAll();
    EXPECT_EQ(HostEnd(0), 40);
    EXPECT_EQ(HostEnd(1), 300 + Created());
  }
}

TEST_F(EngineCreationTest, WhoAskedBeforeItWithdrewWasToldRight) {
  MakeRanks(2, /*communicator=*/false);
  JoinWithoutWaiting(0, 0, 7);
  Query(0, 7);
  Engine& running = Start();
  ASSERT_TRUE(running.Run().ok());
  ASSERT_TRUE(running.DecideOldestQuery());
  EXPECT_FALSE((observer.queries.at({0, 1})));
  Release(0, 1, ReleaseKind::kAbort, /*from_helper=*/true);
  P(0).Close();
  running.ProgramChanged(programs[0].get());
  ASSERT_TRUE(running.Run().ok());
  EXPECT_EQ(running.result(0).divergences, 0u);
}

// ncclCommAbort: what the others never come to ends, and so does what waits behind it.
TEST_F(EngineCreationTest, AnAbortEndsWhatTheOthersNeverComeTo) {
  MakeRanks(2);
  Work(0, 400);
  Collective(0, sum_);
  Collective(0, sum_);
  Work(0, 50);
  Transfers(0, {{1 << 20, 1, 0}}, 2);
  Host(0, 10'000);
  Release(0, 1, ReleaseKind::kAbort);
  Wait(0, 1);
  Wait(0, 2);
  RunToTheAbortAndOn();
  // Created, 10,000 of the host's own, and the work behind the collectives.
  EXPECT_EQ(HostEnd(0), Created() + 10'000 + 50);
  EXPECT_EQ(HostEnd(1), Created());
}

TEST_F(EngineCreationTest, AnAbortEndsWhatAStreamThatIsGoneHolds) {
  MakeRanks(2);
  Collective(0, sum_);
  OnToken(OpKind::kRecordToken, 0, 7);
  P(0).Append(Make(OpKind::kReleaseLane));
  Host(0, 10'000);
  Release(0, 1, ReleaseKind::kAbort);
  OnToken(OpKind::kHostWaitToken, 0, 7);
  RunToTheAbortAndOn();
  EXPECT_EQ(HostEnd(0), Created() + 10'000);
}

// Where the others do come, it ends with them, whoever is looked at first.
TEST_F(EngineCreationTest, AnAbortDoesNotHurryWhatTheOthersComeTo) {
  MakeRanks(2);
  Collective(0, sum_);
  Release(0, 1, ReleaseKind::kAbort);
  Wait(0);
  Host(1, 3000);
  Collective(1, sum_);
  Wait(1);
  RunAll();
  EXPECT_EQ(HostEnd(0), HostEnd(1));
  EXPECT_GT(HostEnd(0), Created() + 3000);
}

// The others meet who has aborted, and left, as if it were still there.
TEST_F(EngineCreationTest, WhoLeavesHadArrived) {
  MakeRanks(2);
  Collective(0, sum_);
  Release(0, 1, ReleaseKind::kAbort);
  Wait(0);
  P(0).Close();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  ASSERT_TRUE(engine->LetOtherThreadsPass());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(HostEnd(0), Created() + kLatency);
  Collective(1, sum_);
  Wait(1);
  P(1).Close();
  engine->ProgramChanged(&P(1));
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->Finished());
  EXPECT_GT(HostEnd(1), HostEnd(0));
}

// A million communicators, a few at a time: calls and numbers are used again.
TEST_F(EngineCreationTest, ForgetsCommunicatorsThatAreGone) {
  constexpr uint32_t kTimes = 3 * CommunicatorTable::kFirstNumbers;
  MakeRanks(2);
  Start();
  for (uint32_t i = 0; i < kTimes; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      Create(rank, 2 + i, 0, static_cast<uint32_t>(rank));
      Collective(rank, sum_, 2 + i);
      Release(rank, 2 + i, ReleaseKind::kDestroy);
      engine->ProgramChanged(&P(rank));
    }
    ASSERT_TRUE(engine->Run().ok());
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_LE(P(rank).details().creations.size(), 3u);
    P(rank).Close();
    engine->ProgramChanged(&P(rank));
  }
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->Finished());
  EXPECT_EQ(HostEnd(0), HostEnd(1));
}

TEST(CommunicatorTableTest, KeepsWhatIsAlive) {
  CommunicatorTable table;
  table.resize(1 << 20);
  for (uint32_t number = 1; number < 10'000; ++number) {
    table[number].index = number;
    if (number % 1000 != 0)
      table.Forget(number);
  }
  EXPECT_LE(table.entries(), CommunicatorTable::kFirstNumbers + 10);
  EXPECT_EQ(table[9000].index, 9000u);
  EXPECT_EQ(table[7].index, 7u);
  EXPECT_EQ(table[9001].state, LocalCommunicator::State::kUnused);
}

TEST_F(EngineCreationTest, ShrinksWithoutThoseThatAreExcluded) {
  MakeRanks(4);
  for (int rank : {0, 1, 3}) {
    Host(rank, 100 * rank);
    Shrink(rank, 2, {2});
    Collective(rank, sum_, 2);
    Wait(rank);
  }
  RunAll();
  EXPECT_EQ(observer.told.at("communicator 3 2 world/0.0").value,
            uint64_t{3} << 32 | 2);
  EXPECT_EQ(EndOf("collective world/0.0 0 2 3"), HostEnd(0));
  EXPECT_EQ(HostEnd(2), Created());
}

TEST_F(EngineCreationTest, FollowersThatAreExcludedLeave) {
  MakeRanks(3, /*communicator=*/false);
  Create(0, 1, 0, 0);
  Shrink(0, 2, {2});
  P(0).Close();
  Create(1, 1, 0, 1);
  Shrink(1, 2, {2});
  P(1).Close();
  Create(2, 1, 0, 2);
  Shrink(2, 2, {2});
  Work(2, 50);
  P(2).Close();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->Finished());
  EXPECT_EQ(HostEnd(2), Created());
}

// It did not count the shrink, so its split is not the one that the others would make.
TEST_F(EngineCreationTest, RefusesASplitByWhoWasExcludedBefore) {
  MakeRanks(3);
  for (int rank : {0, 1}) {
    Shrink(rank, 2, {2});
    P(rank).Close();
  }
  Start();
  ASSERT_TRUE(engine->Run().ok());
  Shrink(2, 2, {});
  P(2).Close();
  engine->ProgramChanged(&P(2));
  EXPECT_THAT(std::string(engine->Run().message()),
              testing::HasSubstr("after a shrink that left this rank out"));
}

// Whom it leaves out is not missing.
TEST_F(EngineCreationTest, NamesAShrinkThatNotAllJoin) {
  MakeRanks(4);
  for (int rank : {0, 3})
    Shrink(rank, 2, {2});
  for (auto& program : programs)
    program->Close();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(engine->DescribeBlocked(1).at(0),
            "ranks 0, 3: host waits for the shrink #0 of communicator 'world'; 1 of 4 "
            "members have not arrived: rank 1 (its program has ended)");
}

TEST_F(EngineCreationTest, NamesMembersThatShrinkDifferently) {
  MakeRanks(4);
  Shrink(0, 2, {2});
  Shrink(1, 2, {3});
  for (auto& program : programs)
    program->Close();
  Start();
  const absl::Status status = engine->Run();
  EXPECT_THAT(status.ToString(), HasSubstr("exclude different members"));
}

}  // namespace
}  // namespace vrank::graph
