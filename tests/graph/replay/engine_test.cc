// The engine's rules one by one, with the numbers worked out by hand.

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using EngineTest = EngineFixture;

TEST_F(EngineTest, WorkStartsAfterHostAndLane) {
  MakeRanks(1, false);
  Host(0, 50);
  Work(0, 1000);  // 150 .. 1150
  Work(0, 10);    // .. 1160
  Wait(0);
  RunAll();
  EXPECT_EQ(HostEnd(0), 1160);
  EXPECT_EQ(engine->result(0).host_waited, Duration::Nanoseconds(1110));
}

TEST_F(EngineTest, AWaitKeepsTheGenerationThatItNamed) {
  MakeRanks(1, false);
  Work(0, 1000);                         // lane 1: 100 .. 1100
  OnToken(OpKind::kRecordToken, 0, 7);   // 1100
  OnToken(OpKind::kWaitToken, 0, 7, 2);  // lane 2 at 1100
  Work(0, 9000);                         // lane 1: .. 10100
  OnToken(OpKind::kRecordToken, 0, 7);   // 10100
  Work(0, 5, 2);                         // lane 2: 1100 .. 1105
  Wait(0, 2);
  RunAll();
  EXPECT_EQ(HostEnd(0), 1105);
  EXPECT_EQ(EndOf("token 0 7 1"), 1100);
  EXPECT_EQ(EndOf("token 0 7 2"), 10100);
}

TEST_F(EngineTest, ANeverRecordedTokenIsComplete) {
  MakeRanks(1, false);
  OnToken(OpKind::kWaitToken, 0, 3);
  OnToken(OpKind::kHostWaitToken, 0, 3);
  OnToken(OpKind::kQueryToken, 0, 3, 1, 0, kAnswerUnknown);
  RunAll();
  EXPECT_EQ(HostEnd(0), 0);
  EXPECT_TRUE((observer.queries.at({0, 2})));
  EXPECT_EQ(P(0).op(2).b, kAnswerComplete);
}

TEST_F(EngineTest, PollsFindTheEndAtTheNextLook) {
  MakeRanks(1, false);
  Work(0, 1000);  // .. 1100
  Op poll = Make(OpKind::kPollLane, 30);
  poll.value = 400;  // looks at 30, 430, 830, 1230
  P(0).Append(poll);
  RunAll();
  EXPECT_EQ(HostEnd(0), 1230);
}

TEST_F(EngineTest, AFullLaunchQueueBlocksTheHost) {
  MakeRanks(1, false);
  for (int i = 0; i < 6; ++i)
    Work(0, 1000, 1, true);  // ends at 1100, 2100, ...; four places
  RunAll();
  EXPECT_EQ(HostEnd(0), 2100);  // launch 5 waits for launch 1
}

TEST_F(EngineTest, RetiredLaunchesAreThoseEndedByTheAnswer) {
  struct Watcher : RecordingObserver {
    uint64_t retired = 0;
    void OnHostAnswer(int32_t, uint64_t, Stamp, Stamp, uint64_t launches,
                      uint64_t) override {
      retired = launches;
    }
  } watcher;
  MakeRanks(1, false);
  for (int i = 0; i < 6; ++i)
    Work(0, 1000, 1, true);
  Host(0, 1000);  // 3100
  P(0).Append(Make(OpKind::kAskClock));
  Engine watched(
      {.launch_queue_depth = 4, .launch_latency = Duration::Nanoseconds(100)}, &network,
      &membership, &watcher);
  RankOptions real;
  real.real = true;
  watched.AddRank(0, programs[0].get(), real);
  ASSERT_TRUE(watched.Run().ok());
  EXPECT_EQ(watcher.retired, 3u);
}

TEST_F(EngineTest, AReleasedLaneBeginsAnew) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});  // waits for rank 1
  P(0).Append(Make(OpKind::kReleaseLane));
  Work(0, 10);
  Wait(0);
  Host(1, 100'000);
  Transfers(1, {{5000, 0, 1}});
  RunAll();
  EXPECT_EQ(HostEnd(0), Created() + kLatency + 10);
}

TEST_F(EngineTest, StragglersTakeLonger) {
  MakeRanks(1, false);
  Work(0, 1001);
  Wait(0);
  P(0).Close();
  Engine scaled({.launch_latency = Duration::Nanoseconds(100)}, &network, &membership,
                &observer);
  scaled.AddRank(0, programs[0].get(), {.work_numerator = 3, .work_denominator = 2});
  ASSERT_TRUE(scaled.Run().ok());
  EXPECT_EQ(scaled.result(0).end.ns, 100 + 1501);
}

TEST_F(EngineTest, MemoryPeaksNameTheirOwners) {
  MakeRanks(1, false);
  const auto memory = [&](int64_t bytes, MemoryOwner owner) {
    Op op = Make(OpKind::kMemory);
    op.value = bytes;
    op.b = static_cast<uint32_t>(owner);
    P(0).Append(op);
  };
  memory(500, MemoryOwner::kContext);
  memory(1000, MemoryOwner::kProgram);
  memory(40, MemoryOwner::kCommunicator);
  memory(-1000, MemoryOwner::kProgram);
  memory(60, MemoryOwner::kCommunicator);
  RunAll();
  const RankResult result = engine->result(0);
  EXPECT_EQ(result.memory_bytes, 600);
  EXPECT_EQ(result.peak_memory_bytes, 1540);
  EXPECT_EQ(result.peak_context_bytes, 500);
  EXPECT_EQ(result.peak_communicator_bytes, 40);
}

// Members of four arrive at `at` after creation; ends by operation.
class CollectiveTest : public EngineFixture {
 protected:
  void Arrive(const CollectiveCall& call, const std::vector<int64_t>& at) {
    MakeRanks(static_cast<int>(at.size()));
    for (int i = 0; i < static_cast<int>(at.size()); ++i) {
      Host(i, at[static_cast<size_t>(i)]);
      Collective(i, call);
    }
    RunAll();
    cost = network.Collective(call, job.groups[0].members).duration.nanoseconds();
  }
  // End less creation, latency and cost: the latest arrival it depends on.
  int64_t Latest(int member) {
    return CollectiveEnd(member) - Created() - kLatency - cost;
  }
  int64_t cost = 0;
};

TEST_F(CollectiveTest, AllReduceWaitsForAll) {
  Arrive({.operation = CollectiveKind::kAllReduce, .count = 8}, {10, 40, 20, 30});
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(Latest(i), 40);
}

// The ring from root 2: 2, 3, 0, 1; each also waits for the next one.
TEST_F(CollectiveTest, BroadcastFollowsTheRing) {
  Arrive({.operation = CollectiveKind::kBroadcast, .root = 2}, {30, 40, 10, 20});
  EXPECT_EQ(Latest(2), 20);
  EXPECT_EQ(Latest(3), 30);
  EXPECT_EQ(Latest(0), 40);
  EXPECT_EQ(Latest(1), 40);
}

// The chain that ends in root 2: 3, 0, 1, 2.
TEST_F(CollectiveTest, ReduceEndsInTheRoot) {
  Arrive({.operation = CollectiveKind::kReduce, .root = 2}, {20, 30, 40, 10});
  EXPECT_EQ(Latest(3), 20);
  EXPECT_EQ(Latest(0), 30);
  EXPECT_EQ(Latest(1), 40);
  EXPECT_EQ(Latest(2), 40);
}

TEST_F(CollectiveTest, GatherWaitsForRootAndSelf) {
  Arrive({.operation = CollectiveKind::kGather, .root = 1}, {10, 20, 40, 30});
  EXPECT_EQ(Latest(0), 20);
  EXPECT_EQ(Latest(1), 40);
  EXPECT_EQ(Latest(2), 40);
  EXPECT_EQ(Latest(3), 30);
}

TEST_F(EngineTest, ABroadcastRootGoesOnBeforeLateMembersAreKnown) {
  MakeRanks(3);
  for (int i = 0; i < 2; ++i) {
    Collective(i, {.operation = CollectiveKind::kBroadcast});
    Wait(i);
  }
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(observer.told.count("answer 0 2"), 1u);
  EXPECT_EQ(observer.told.count("answer 1 2"), 0u);  // needs rank 2
}

TEST_F(EngineTest, OneProcessMayHaveSeveralMembers) {
  programs.push_back(std::make_unique<Program>(false));
  job.groups.push_back({"world", {0, 0}});
  Create(0, 1, 0, 0);
  Create(0, 2, 0, 1);
  Collective(0, {.count = 4}, 1, 1);
  Collective(0, {.count = 4}, 2, 2);
  Wait(0, 1);
  RunAll();
  EXPECT_EQ(HostEnd(0), Created() + kLatency + 500 + 4 * 2);
}

TEST_F(EngineTest, EagerSendsEndWithoutTheirReceiver) {
  MakeRanks(2);
  Transfers(0, {{600, 1, 1}});  // credit: 1000
  Wait(0);
  Host(1, 50'000);
  Transfers(1, {{600, 0, 0}});
  Wait(1);
  RunAll();
  const int64_t cost = network.Transfer(600, 0, 1).duration.nanoseconds();
  EXPECT_EQ(HostEnd(0), Created() + kLatency + cost);
  EXPECT_EQ(HostEnd(1), Created() + 50'000 + kLatency + cost);
}

TEST_F(EngineTest, SendsBeyondTheCreditWaitForAReceive) {
  MakeRanks(2);
  for (int i = 0; i < 2; ++i)
    Transfers(0, {{600, 1, 1}});
  Wait(0);
  Host(1, 50'000);
  for (int i = 0; i < 2; ++i)
    Transfers(1, {{600, 0, 0}});
  Wait(1);
  RunAll();
  const int64_t cost = network.Transfer(600, 0, 1).duration.nanoseconds();
  const int64_t first_received = Created() + 50'000 + kLatency + cost;
  EXPECT_EQ(HostEnd(0), first_received + cost);
  EXPECT_EQ(HostEnd(1), first_received + cost);
}

TEST_F(EngineTest, LargeSendsMeetTheirReceiver) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 1}});
  Wait(0);
  Host(1, 50'000);
  Transfers(1, {{5000, 0, 0}});
  Wait(1);
  RunAll();
  const int64_t cost = network.Transfer(5000, 0, 1).duration.nanoseconds();
  EXPECT_EQ(HostEnd(0), Created() + 50'000 + kLatency + cost);
  EXPECT_EQ(HostEnd(1), HostEnd(0));
}

TEST_F(EngineTest, SendsToSelfMatchWithinAGroup) {
  MakeRanks(1);
  Transfers(0, {{5000, 0, 1}, {5000, 0, 0}});
  Wait(0);
  RunAll();
  EXPECT_EQ(HostEnd(0),
            Created() + kLatency + network.Transfer(5000, 0, 0).duration.nanoseconds());
}

TEST_F(EngineTest, AbsentRanksArriveWithTheFirstPresentOne) {
  MakeRanks(3);
  job.absent = {1};
  for (const int rank : {0, 2}) {
    Host(rank, rank == 0 ? 10 : 70);
    Collective(rank, {.count = 1});
  }
  Transfers(0, {{5000, 1, 1}});
  Wait(0);
  Wait(2);
  RunAll();
  const int64_t reduced = Created() + 70 + kLatency + 500 + 3;
  EXPECT_EQ(HostEnd(2), reduced);
  EXPECT_EQ(HostEnd(0), reduced + network.Transfer(5000, 0, 1).duration.nanoseconds());
  EXPECT_EQ(engine->assumed_arrivals(), 3u);  // creation, all-reduce, transfer
}

TEST_F(EngineTest, ReleaseWaitsForTheCommunicatorsWork) {
  MakeRanks(2);
  for (int i = 0; i < 2; ++i) {
    Collective(i, {.count = 100});
    Op release = Make(OpKind::kReleaseCommunicator);
    release.a = 1;
    release.b =
        static_cast<uint32_t>(i == 0 ? ReleaseKind::kDestroy : ReleaseKind::kAbort);
    P(i).Append(release);
  }
  RunAll();
  EXPECT_EQ(HostEnd(0), Created() + kLatency + 500 + 200);
  EXPECT_EQ(HostEnd(1), Created());
}

TEST_F(EngineTest, QueriesAreAnsweredByALowerBound) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});
  Work(0, 100'000);
  OnToken(OpKind::kRecordToken, 0, 1);
  OnToken(OpKind::kQueryToken, 0, 1, 1, 0,
          kAnswerUnknown);  // pending, but not before 100 us
  Host(0, 200'000);
  OnToken(OpKind::kQueryToken, 0, 1, 1, 0, kAnswerUnknown);  // open until rank 1 sends
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_FALSE(observer.queries.at({0, 4}));
  EXPECT_EQ(observer.queries.count({0, 6}), 0u);
  Host(1, 10);
  Transfers(1, {{5000, 0, 1}});
  engine->ProgramChanged(programs[1].get());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(observer.queries.at({0, 6}));
  EXPECT_FALSE(engine->DecideOldestQuery());
}

TEST_F(EngineTest, DecidesTheOldestQueryFirst) {
  MakeTwoThatAsk();
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_TRUE(engine->DecideOldestQuery());
  EXPECT_EQ(observer.queries.size(), 1u);
  EXPECT_FALSE(observer.queries.at({1, 3}));
  EXPECT_TRUE(engine->DecideOldestQuery());
  EXPECT_FALSE(engine->DecideOldestQuery());
}

TEST_F(EngineTest, AnAnswerThatALaterArrivalContradictsIsCounted) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});
  Host(0, 900'000);
  OnToken(OpKind::kRecordToken, 0, 1);
  Host(0, 900'000);
  OnToken(OpKind::kQueryToken, 0, 1, 1, 0, kAnswerUnknown);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  ASSERT_TRUE(engine->DecideOldestQuery());  // too early: rank 1 is not waiting
  Transfers(1, {{5000, 0, 1}});
  engine->ProgramChanged(programs[1].get());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(engine->result(0).divergences, 1u);
}

TEST_F(EngineTest, PassedChunksAreGivenBack) {
  MakeRanks(1, false);
  Start();
  for (int i = 0; i < 3; ++i) {
    for (size_t k = 0; k < Program::kChunkOps; ++k)
      Work(0, 1);
    engine->ProgramChanged(programs[0].get());
    ASSERT_TRUE(engine->Run().ok());
  }
  Work(0, 1);
  engine->ProgramChanged(programs[0].get());
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(P(0).Released(), 3 * Program::kChunkOps);
  EXPECT_EQ(engine->ops(), P(0).size());
}

TEST_F(EngineTest, CountsWhatIsPending) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 0}});
  for (int i = 0; i < 10; ++i)
    Work(0, 1);
  Start();
  ASSERT_TRUE(engine->Run().ok());
  EXPECT_EQ(engine->Unresolved(0), 11u + P(0).Unread());
  EXPECT_EQ(engine->Unresolved(7), 0u);
}

// The program of a leader is as far ahead as its slowest follower is behind.
TEST_F(EngineTest, CountsWhatAFollowerHasNotRead) {
  MakeRanks(2, false);
  const uint64_t ops = 3 * Program::kChunkOps;
  for (uint64_t i = 0; i < ops; ++i)
    Work(0, 1);
  P(0).Close();
  Engine followed({.launch_latency = Duration::Nanoseconds(kLatency)}, &network,
                  &membership, &observer);
  followed.AddRank(0, &P(0), {});
  EXPECT_EQ(followed.Unresolved(0), ops);
  // A second reader that cannot start: nobody reads for it.
  P(0).AddReader();
  ASSERT_TRUE(followed.Run().ok());
  EXPECT_EQ(followed.result(0).ops, ops);
  EXPECT_EQ(followed.Unresolved(0), ops);
}

}  // namespace
}  // namespace vrank::graph
