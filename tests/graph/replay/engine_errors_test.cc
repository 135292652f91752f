// What the engine says about jobs that cannot be.

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class EngineErrorsTest : public EngineFixture {
 protected:
  std::string Error() {
    for (auto& program : programs)
      program->Close();
    Start();
    const absl::Status status = engine->Run();
    EXPECT_FALSE(status.ok());
    return status.ToString();
  }
  std::vector<std::string> Blocked(size_t limit = 10) {
    for (auto& program : programs)
      program->Close();
    Start();
    EXPECT_TRUE(engine->Run().ok());
    EXPECT_FALSE(engine->Finished());
    return engine->DescribeBlocked(limit);
  }
};

// Members of a window meet without making a communicator.
TEST_F(EngineErrorsTest, AMeetingThatMakesNothingIsNotCalledASplit) {
  for (const int32_t color : {protocol::kNoColor, 0}) {
    job = Job();
    programs.clear();
    MakeRanks(2);
    Creation call;
    call.parent = 1;
    call.color = color;
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = 2;
    op.b = P(0).AddCreation(call);
    P(0).Append(op);
    EXPECT_THAT(Blocked(), testing::ElementsAre(testing::HasSubstr(
                               color == 0 ? "host waits for the split #0"
                                          : "registration of a window")));
  }
}

TEST_F(EngineErrorsTest, DifferentCallsNameBothSides) {
  MakeRanks(2);
  Collective(0, {.operation = CollectiveKind::kAllReduce, .count = 16});
  Collective(1, {.operation = CollectiveKind::kAllReduce, .count = 32});
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("communicator 'world': collective #0 differs"));
  EXPECT_THAT(error, HasSubstr("rank 0 calls all_reduce(16 int8, sum)"));
  EXPECT_THAT(error, HasSubstr("rank 1 calls all_reduce(32 int8, sum)"));
}

TEST_F(EngineErrorsTest, OnlyOperationsWithARootNameIt) {
  MakeRanks(2);
  Collective(0, {.operation = CollectiveKind::kBroadcast, .root = 0, .count = 16});
  Collective(1, {.operation = CollectiveKind::kBroadcast, .root = 1, .count = 16});
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("rank 0 calls broadcast(16 int8, root 0)"));
  EXPECT_THAT(error, HasSubstr("rank 1 calls broadcast(16 int8, root 1)"));
}

// Sizes that hang on values: a real rank beside one that plays a recording.
TEST_F(EngineErrorsTest, NamesTheFlagsThatGiveARecordingsValues) {
  recorded = {1};
  MakeRanks(2);
  Collective(0, {.operation = CollectiveKind::kAllReduce, .count = 16});
  Collective(1, {.operation = CollectiveKind::kAllReduce, .count = 32});
  EXPECT_THAT(Error(), AllOf(HasSubstr("; rank 1 plays what a run recorded"),
                             HasSubstr("--record-payloads FILE"),
                             HasSubstr("--recorded-payloads FILE")));
}

TEST_F(EngineErrorsTest, NamesThoseFlagsForTransfers) {
  recorded = {0};
  MakeRanks(2);
  Transfers(0, {{64, 1, 1}});
  Transfers(1, {{128, 0, 0}});
  EXPECT_THAT(Error(), AllOf(HasSubstr("; rank 0 plays what a run recorded"),
                             HasSubstr("--record-payloads FILE")));
}

TEST_F(EngineErrorsTest, DoesNotNameThoseFlagsWhereNobodyIsReal) {
  recorded = {0, 1};
  MakeRanks(2);
  Transfers(0, {{64, 1, 1}});
  Transfers(1, {{128, 0, 0}});
  EXPECT_THAT(Error(), Not(HasSubstr("payloads")));
}

TEST_F(EngineErrorsTest, DifferentSizesOfATransferNameBothSides) {
  MakeRanks(2);
  Transfers(0, {{64, 1, 1}});
  Transfers(1, {{128, 0, 0}});
  EXPECT_THAT(
      Error(),
      HasSubstr("communicator 'world': transfer #0 from rank 0 (index 0) to rank 1 "
                "(index 1) differs: 64 bytes are sent, 128 bytes received"));
}

TEST_F(EngineErrorsTest, AMemberWithoutAProgramIsNamed) {
  MakeRanks(2, false);
  job.groups[0].members.push_back(5);
  Create(0, 1, 0, 0);
  EXPECT_THAT(Error(),
              HasSubstr("communicator 'world', created by rank 0: member 2 is rank "
                        "5, which is neither real nor played"));
}

TEST_F(EngineErrorsTest, RootsAndPeersMustBeMembers) {
  MakeRanks(2);
  Collective(0, {.operation = CollectiveKind::kBroadcast, .root = 2});
  EXPECT_THAT(Error(),
              HasSubstr("broadcast #0 of rank 0 has root 2; there are 2 members"));
}

TEST_F(EngineErrorsTest, PeersMustBeMembers) {
  MakeRanks(2);
  Transfers(0, {{64, 9, 1}});
  EXPECT_THAT(Error(), HasSubstr("rank 0 names peer 9 in a send; there are 2 members"));
}

TEST_F(EngineErrorsTest, UnknownCommunicatorsAreNamed) {
  MakeRanks(1);
  Collective(0, {}, 4);
  EXPECT_THAT(
      Error(),
      HasSubstr("rank 0: op 1 (collective) uses communicator 4, which was never "
                "created"));
}

TEST_F(EngineErrorsTest, NumbersOutOfRangeAreNoCrash) {
  MakeRanks(1);
  Work(0, 5, 0xfffffff0);
  EXPECT_THAT(Error(), HasSubstr("rank 0: op 1 names lane 4294967280"));
}

TEST_F(EngineErrorsTest, DescribesACollectiveThatNotAllJoin) {
  MakeRanks(4);
  for (int i = 0; i < 2; ++i) {
    Collective(i, {.count = 16});
    Wait(i);
  }
  EXPECT_THAT(
      Blocked(),
      ElementsAre("ranks 0, 1: host waits for lane 1: all_reduce #0 of communicator "
                  "'world' (16 x int8); 2 of 4 members have not arrived: ranks 2, 3 "
                  "(their programs have ended)"));
}

TEST_F(EngineErrorsTest, DescribesTheCauseBehindTokensAndLanes) {
  MakeRanks(2);
  Collective(0, {.count = 16});
  OnToken(OpKind::kRecordToken, 0, 5);
  OnToken(OpKind::kWaitToken, 0, 5, 2);
  OnToken(OpKind::kRecordToken, 0, 6, 2);
  OnToken(OpKind::kHostWaitToken, 0, 6);
  EXPECT_THAT(
      Blocked(),
      ElementsAre("rank 0: host waits for token 6: all_reduce #0 of communicator "
                  "'world' (16 x int8); 1 of 2 members have not arrived: rank 1 "
                  "(its program has ended)"));
}

TEST_F(EngineErrorsTest, DescribesUnmatchedTransfers) {
  MakeRanks(2);
  Transfers(0, {{5000, 1, 1}});
  Wait(0);
  EXPECT_THAT(
      Blocked(),
      ElementsAre("rank 0: host waits for lane 1: transfers of communicator 'world': "
                  "send #0 to rank 1 (5000 bytes; that rank has received 0 times) has "
                  "no match; not arrived: rank 1 (its program has ended)"));
}

TEST_F(EngineErrorsTest, DescribesAReceiveWithoutASend) {
  MakeRanks(2);
  Transfers(0, {{64, 1, 1}});
  Transfers(1, {{64, 0, 0}});
  Transfers(1, {{64, 0, 0}});
  EXPECT_THAT(
      Blocked(),
      ElementsAre("rank 1: the program has ended, but lane 1 waits for transfers of "
                  "communicator 'world': receive #1 from rank 0 (64 bytes; that rank "
                  "has sent once) has no match; not arrived: rank 0 (its program has "
                  "ended)"));
}

// Whom the others wait for comes before them, however short their lines are.
TEST_F(EngineErrorsTest, DescribesAChainFromItsCauseOn) {
  MakeRanks(5);
  Transfers(0, {{64, 1, 0}});
  Wait(0);
  Transfers(1, {{64, 2, 0}});
  Wait(1);
  Transfers(2, {{64, 3, 0}});
  Wait(2);
  Transfers(3, {{64, 4, 0}, {128, 4, 0}});
  Wait(3);
  EXPECT_THAT(Blocked(2),
              ElementsAre(AllOf(HasSubstr("rank 3: host waits for lane 1: transfers of "
                                          "communicator 'world': receive #0 from rank "
                                          "4 (64 bytes; that rank has sent 0 times), "
                                          "receive #1 from rank 4 (128 bytes"),
                                HasSubstr("not arrived: rank 4 (its program has "
                                          "ended)")),
                          HasSubstr("rank 2: host waits for lane 1: transfers of "
                                    "communicator 'world': receive #0 from rank 3"),
                          "2 more ranks in 2 more such waits"));
}

// A send within the credit does not wait for its receiver: the job runs to its end.
class UnmatchedSendTest : public EngineErrorsTest {
 protected:
  void Send(int rank, uint32_t peer) { Transfers(rank, {{64, peer, 1}}); }
  void Receive(int rank, uint32_t peer) { Transfers(rank, {{64, peer, 0}}); }
  void Release(int rank, ReleaseKind kind) {
    Op op = Make(OpKind::kReleaseCommunicator);
    op.a = 1;
    op.b = static_cast<uint32_t>(kind);
    P(rank).Append(op);
  }
  std::string AtTheEnd() {
    RunAll();
    const absl::Status status = engine->CheckTransfersMatched();
    return status.ok() ? "" : std::string(status.message());
  }
};

TEST_F(UnmatchedSendTest, NamesBothSides) {
  MakeRanks(3);
  for (int i = 0; i < 3; ++i)
    Send(0, 1);
  Receive(1, 0);
  EXPECT_EQ(AtTheEnd(),
            "communicator 'world': send #1 from rank 0 (index 0) to rank 1 (index 1), "
            "64 bytes, has no receive: rank 0 sends 3 times, rank 1 receives from it "
            "once, and its program has ended after 2 ops; post the receive, or leave "
            "the send out");
}

TEST_F(UnmatchedSendTest, SaysHowManyMoreThereAre) {
  MakeRanks(3);
  Send(2, 1);
  Send(1, 0);
  Send(0, 1);
  Receive(1, 0);
  const std::string error = AtTheEnd();
  EXPECT_THAT(error, HasSubstr("send #0 from rank 1 (index 1) to rank 0 (index 0)"));
  EXPECT_THAT(error, HasSubstr("(1 more pairs of members have such)"));
}

TEST_F(UnmatchedSendTest, IsFoundInACommunicatorThatIsGone) {
  MakeRanks(2);
  Send(0, 1);
  Release(0, ReleaseKind::kDestroy);
  Release(1, ReleaseKind::kDestroy);
  EXPECT_THAT(AtTheEnd(), HasSubstr("rank 1 receives from it 0 times"));
}

TEST_F(UnmatchedSendTest, IsNoErrorWhereTheCommunicatorWasAborted) {
  MakeRanks(2);
  Send(0, 1);
  Release(0, ReleaseKind::kDestroy);
  Release(1, ReleaseKind::kAbort);
  EXPECT_EQ(AtTheEnd(), "");
}

TEST_F(UnmatchedSendTest, IsNoErrorWhereOneMemberHasAborted) {
  MakeRanks(2);
  Send(0, 1);
  Release(1, ReleaseKind::kAbort);
  EXPECT_EQ(AtTheEnd(), "");
}

TEST_F(UnmatchedSendTest, WhatAllReceiveIsFine) {
  MakeRanks(2);
  Send(0, 1);
  Receive(1, 0);
  EXPECT_EQ(AtTheEnd(), "");
}

TEST_F(EngineErrorsTest, DescribesACreationThatNotAllJoin) {
  MakeRanks(3, false);
  Create(0, 1, 0, 0);
  EXPECT_THAT(
      Blocked(),
      ElementsAre("rank 0: host waits for the creation of communicator 'world'; 2 of "
                  "3 members have not arrived: ranks 1, 2 (their programs have "
                  "ended)"));
}

TEST_F(EngineErrorsTest, DescribesAFullLaunchQueue) {
  MakeRanks(2);
  Collective(0, {.count = 16});
  for (int i = 0; i < 6; ++i)
    Work(0, 1, 1, true);
  EXPECT_THAT(Blocked(), ElementsAre(HasSubstr(
                             "rank 0: host waits for room in the launch queue (4 "
                             "launches): all_reduce #0")));
}

TEST_F(EngineErrorsTest, DescribesLanesThatAProgramLeftPending) {
  MakeRanks(2);
  Collective(0, {.count = 16});
  EXPECT_THAT(Blocked(),
              ElementsAre(HasSubstr("rank 0: the program has ended, but lane 1 "
                                    "waits for all_reduce #0")));
}

}  // namespace
}  // namespace vrank::graph
