#include "virtual_nccl/core/creation.h"

#include <gmock/gmock.h>

#include "tests/virtual_nccl/creation_fixture.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

TEST_F(CreationTest, AsksForTheOtherMembersOfAnId) {
  gpu.current_device = 2;
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t communicator = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "data parallel";
  ASSERT_EQ(InitRank(library, group,
                     {.function = "ncclCommInitRankConfig",
                      .out = &communicator,
                      .ranks = 8,
                      .rank = 5,
                      .ids = &id,
                      .config = &config}),
            ncclSuccess);
  auto questions = Records<protocol::CommInit>(Kind::kCommInit);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].communicator, 1u);
  EXPECT_EQ(questions[0].ranks, 8u);
  EXPECT_EQ(questions[0].rank, 5u);
  EXPECT_EQ(questions[0].device, 2u);
  EXPECT_EQ(channel.NameOf(questions[0].name), "data parallel");
  EXPECT_EQ(memcmp(questions[0].unique_id, id.internal, sizeof id), 0);
  const Communicator* made = Communicator::From(communicator);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->ranks, 8u);
  EXPECT_EQ(made->rank, 5u);
  EXPECT_EQ(made->device, 2);
  EXPECT_EQ(made->state(), CommunicatorState::kReady);
}

TEST_F(CreationTest, AnswersBadInitArgumentsAsNcclDoes) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(Init(nullptr, 2, 0, id), ncclInvalidArgument);
  EXPECT_EQ(Init(&communicator, 0, 0, id), ncclInvalidArgument);
  EXPECT_EQ(Init(&communicator, 2, -1, id), ncclInvalidArgument);
  EXPECT_EQ(Init(&communicator, 2, 2, id), ncclInvalidArgument);
  for (int id_count : {0, 3})
    EXPECT_EQ(InitRank(library, group,
                       {.out = &communicator,
                        .ranks = 2,
                        .rank = 0,
                        .id_count = id_count,
                        .ids = &id}),
              ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(InitRank(library, group,
                     {.out = &communicator, .ranks = 2, .ids = &id, .config = &config}),
            ncclInvalidArgument);
  EXPECT_EQ(communicator, nullptr);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(CreationTest, ReservesWhatNcclWouldTake) {
  ncclComm_t communicator = MakeCommunicator(8, 0);
  ASSERT_EQ(gpu.reserved.size(), 1u);
  EXPECT_EQ(gpu.reserved.begin()->second, 1000u + 7 * 10);
  EXPECT_EQ(Destroy(library, communicator), ncclSuccess);
  EXPECT_TRUE(gpu.reserved.empty());
}

TEST_F(CreationTest, FailsWithoutRoomAndCanBeTriedAgain) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  gpu.free_bytes = 1069;
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(Init(&communicator, 8, 0, id), ncclUnhandledCudaError);
  auto releases = Records<protocol::CommRelease>(Kind::kCommRelease);
  ASSERT_EQ(releases.size(), 1u);
  EXPECT_EQ(releases[0].communicator, 1u);
  EXPECT_EQ(releases[0].release, protocol::ReleaseKind::kAbort);
  EXPECT_EQ(Abort(library, communicator), ncclSuccess);
  EXPECT_EQ(Records<protocol::CommRelease>(Kind::kCommRelease).size(), 1u);
  gpu.free_bytes = 1070;
  EXPECT_EQ(Init(&communicator, 8, 0, library.NewUniqueId(nullptr)), ncclSuccess);
}

TEST_F(CreationTest, IsInProgressUntilTheGroupEnds) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t communicator = nullptr;
  group.Start();
  ASSERT_EQ(Init(&communicator, 2, 0, id), ncclSuccess);
  ASSERT_NE(communicator, nullptr);
  EXPECT_TRUE(channel.records().empty());
  ncclResult_t health = ncclSuccess;
  EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclSuccess);
  EXPECT_EQ(health, ncclInProgress);
  EXPECT_EQ(Finalize(library, communicator), ncclInvalidArgument);
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclSuccess);
  EXPECT_EQ(health, ncclSuccess);
}

TEST_F(CreationTest, MeetsTheCommunicatorsOfAGroupInOneOrderEverywhere) {
  const ncclUniqueId a = MakeUniqueId(nullptr, 0, 0);
  const ncclUniqueId b = MakeUniqueId(nullptr, 1, 0);
  std::vector<std::string> orders;
  for (bool a_first : {true, false}) {
    FakeChannel own_channel;
    FakeGpu own_gpu(&own_channel);
    Library own_library(&own_channel, &own_gpu);
    ncclComm_t made[2];
    group.Start();
    for (int i = 0; i < 2; ++i) {
      const ncclUniqueId& id = (i == 0) == a_first ? a : b;
      EXPECT_EQ(InitRank(own_library, group, {.out = &made[i], .ranks = 2, .ids = &id}),
                ncclSuccess);
    }
    EXPECT_EQ(group.End(own_library), ncclSuccess);
    std::string order;
    for (const auto& question : own_channel.records(Kind::kCommInit)) {
      auto record = question.as<protocol::CommInit>();
      order += memcmp(record.unique_id, a.internal, sizeof a) == 0 ? "a" : "b";
    }
    orders.push_back(order);
  }
  EXPECT_EQ(orders[0].size(), 2u);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(CreationTest, DiscardsTheInitsOfAFailedGroup) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t communicator = nullptr, other = nullptr;
  group.Start();
  EXPECT_EQ(Init(&communicator, 2, 0, id), ncclSuccess);
  EXPECT_EQ(Init(&other, 2, 7, id), ncclInvalidArgument);
  EXPECT_EQ(group.End(library), ncclInvalidArgument);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)),
            ncclInvalidArgument);
  EXPECT_TRUE(channel.records().empty());
  EXPECT_TRUE(gpu.reserved.empty());
  EXPECT_EQ(Abort(library, communicator), ncclSuccess);
}

TEST_F(CreationTest, JoinsWithAllMembersOfTheProcessBeforeItWaits) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t made[3] = {};
  group.Start();
  for (int i = 0; i < 3; ++i) {
    gpu.current_device = i;
    ASSERT_EQ(Init(&made[i], 8, 4 + i, id), ncclSuccess);
  }
  ASSERT_EQ(group.End(library), ncclSuccess);
  auto questions = Records<protocol::CommInit>(Kind::kCommInit);
  ASSERT_EQ(questions.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(questions[i].rank, 4 + i);
    EXPECT_EQ(questions[i].device, i);
    EXPECT_EQ(questions[i].local_members, 3u);
    EXPECT_EQ(Communicator::From(made[i])->device, static_cast<int>(i));
    EXPECT_EQ(Communicator::From(made[i])->state(), CommunicatorState::kReady);
  }
  EXPECT_EQ(gpu.reserved.size(), 3u);
}

TEST_F(CreationTest, RefusesTwoMembersOnOneGpu) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t first = nullptr, second = nullptr;
  group.Start();
  EXPECT_EQ(Init(&first, 2, 0, id), ncclSuccess);
  EXPECT_EQ(Init(&second, 2, 1, id), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclInvalidUsage);
  EXPECT_NE(std::string(LastError()).find("Duplicate GPU"), std::string::npos);
  EXPECT_EQ(Destroy(library, first), ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(CreationTest, TakesTheSameIdForOneCommunicatorAfterAnother) {
  const ncclUniqueId id = MakeUniqueId("127.0.0.1:5000", 0, 0);
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT_EQ(Init(&first, 2, 0, id), ncclSuccess);
  EXPECT_EQ(Init(&second, 2, 0, id), ncclSuccess);
  group.Start();
  EXPECT_EQ(Init(&first, 2, 0, id), ncclSuccess);
  EXPECT_EQ(Init(&second, 2, 0, id), ncclSuccess);
  EXPECT_EQ(group.End(library), ncclSuccess);
  for (const auto& question : Records<protocol::CommInit>(Kind::kCommInit))
    EXPECT_EQ(question.local_members, 1u);
}

// NCCL_COMM_ID gives the leaders of two communicators one text.
TEST_F(CreationTest, TellsIdsOfTwoMakersApart) {
  const ncclUniqueId ids[] = {MakeUniqueId("127.0.0.1:5000", 0, 0),
                              MakeUniqueId("127.0.0.1:5000", 1, 0)};
  std::vector<uint8_t> orders[2];
  for (const int first : {0, 1}) {
    channel.Clear();
    ncclComm_t made[2] = {};
    group.Start();
    for (const int i : {first, 1 - first})
      EXPECT_EQ(Init(&made[i], 2, i, ids[i]), ncclSuccess);
    EXPECT_EQ(group.End(library), ncclSuccess);
    for (const auto& question : Records<protocol::CommInit>(Kind::kCommInit)) {
      EXPECT_EQ(question.local_members, 1u);
      orders[first].push_back(question.unique_id[protocol::kUniqueIdBytes - 4]);
    }
  }
  EXPECT_EQ(orders[0].size(), 2u);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST_F(CreationTest, InitializesAllDevices) {
  gpu.devices = 4;
  ncclComm_t communicators[2] = {};
  const int three[] = {3}, twice[] = {1, 1}, beyond[] = {4}, two[] = {2, 0};
  EXPECT_EQ(InitAll(library, group, nullptr, 1, three), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, -1, three), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, 1, beyond), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, 2, twice), ncclInvalidUsage);
  EXPECT_TRUE(channel.records().empty());
  ASSERT_EQ(InitAll(library, group, communicators, 1, three), ncclSuccess);
  EXPECT_EQ(Communicator::From(communicators[0])->device, 3);
  EXPECT_EQ(Records<protocol::CommInit>(Kind::kCommInit).at(0).ranks, 1u);
  ASSERT_EQ(InitAll(library, group, communicators, 2, two), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Communicator::From(communicators[i])->device, two[i]);
    EXPECT_EQ(Communicator::From(communicators[i])->rank, static_cast<uint32_t>(i));
    EXPECT_EQ(Communicator::From(communicators[i])->ranks, 2u);
  }
}

TEST_F(CreationTest, ReturnsAtOnceWhereItDoesNotBlock) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made = nullptr;
  ASSERT_EQ(InitRank(library, group,
                     {.function = "ncclCommInitRankConfig",
                      .out = &made,
                      .ranks = 2,
                      .ids = &id,
                      .config = &config}),
            ncclInProgress);
  ASSERT_NE(made, nullptr);
  const auto question = Records<protocol::CommInit>(Kind::kCommInit).at(0);
  EXPECT_NE(question.token, 0u);
  bool arrived = false;
  channel.on_ask = [&](const FakeChannel::Written&) {
    Answer answer;
    answer.complete = arrived;
    return answer;
  };
  ncclResult_t health = ncclSuccess;
  EXPECT_EQ(CommunicatorHealth(library, made, &health), ncclSuccess);
  EXPECT_EQ(health, ncclInProgress);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, made)), ncclInvalidArgument);
  EXPECT_TRUE(gpu.reserved.empty());
  arrived = true;
  EXPECT_EQ(CommunicatorHealth(library, made, &health), ncclSuccess);
  EXPECT_EQ(health, ncclSuccess);
  EXPECT_EQ(gpu.tokens_taken, 0);
  EXPECT_EQ(gpu.reserved.size(), 1u);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, made)), ncclSuccess);
}

TEST_F(CreationTest, CanBeAbortedBeforeTheOthersCome) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t made = nullptr;
  ASSERT_EQ(InitRank(library, group,
                     {.out = &made, .ranks = 2, .ids = &id, .config = &config}),
            ncclInProgress);
  channel.on_ask = [&](const FakeChannel::Written&) { return Answer{}; };
  EXPECT_EQ(Destroy(library, made), ncclInvalidArgument);
  EXPECT_EQ(Abort(library, made), ncclSuccess);
  EXPECT_EQ(gpu.tokens_taken, 0);
  EXPECT_EQ(Records<protocol::CommRelease>(Kind::kCommRelease).at(0).release,
            protocol::ReleaseKind::kAbort);
}

}  // namespace
}  // namespace vrank::nccl
