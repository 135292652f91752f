#include "virtual_nccl/core/creation.h"

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;

class CreationTest : public NcclTest {
 protected:
  CreationTest() {
    channel.mutable_settings().communicator_bytes = 1000;
    channel.mutable_settings().communicator_peer_bytes = 10;
  }
  ncclResult_t Init(ncclComm_t* out, int ranks, int rank, const ncclUniqueId& id) {
    return InitRank(library, group,
                    {.function = "ncclCommInitRank",
                     .out = out,
                     .ranks = ranks,
                     .rank = rank,
                     .ids = &id});
  }
  // Every split ends with this rank as `rank` of `ranks`.
  void AnswerSplits(uint64_t ranks, uint64_t rank) {
    channel.on_ask = [=](const FakeChannel::Written& question) {
      Answer answer;
      if (question.kind == Kind::kCommSplit)
        answer.value = ranks << 32 | rank;
      return answer;
    };
  }
};

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
  EXPECT_EQ(communicator, nullptr);
  auto releases = Records<protocol::CommRelease>(Kind::kCommRelease);
  ASSERT_EQ(releases.size(), 1u);
  EXPECT_EQ(releases[0].communicator, 1u);
  EXPECT_EQ(releases[0].release, protocol::ReleaseKind::kAbort);
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
  EXPECT_EQ(communicator, nullptr);
  EXPECT_TRUE(channel.records().empty());
  EXPECT_TRUE(gpu.reserved.empty());
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
  EXPECT_EQ(first, nullptr);
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

TEST_F(CreationTest, InitializesAllDevices) {
  channel.mutable_settings().devices = 4;
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

TEST_F(CreationTest, SplitsWithoutWaitingWhereTheParentDoesNotBlock) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t parent = nullptr, child = nullptr;
  ASSERT_EQ(InitRank(library, group,
                     {.out = &parent, .ranks = 4, .ids = &id, .config = &config}),
            ncclInProgress);
  ncclResult_t health = ncclInProgress;
  ASSERT_EQ(CommunicatorHealth(library, parent, &health), ncclSuccess);
  ASSERT_EQ(health, ncclSuccess);
  channel.on_collect = [](const FakeChannel::Written&) {
    Answer answer;
    answer.value = uint64_t{2} << 32 | 1;
    return answer;
  };
  EXPECT_EQ(Split(library, group, parent, 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(CommunicatorHealth(library, parent, &health), ncclSuccess);
  EXPECT_EQ(health, ncclSuccess);
  ASSERT_NE(Communicator::From(child), nullptr);
  EXPECT_EQ(Communicator::From(child)->rank, 1u);
  EXPECT_FALSE(Communicator::From(child)->config.blocking);
}

TEST_F(CreationTest, KeepsBlockingAndNonblockingApart) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId a = library.NewUniqueId(nullptr), b = library.NewUniqueId(nullptr);
  ncclComm_t made[2] = {};
  group.Start();
  EXPECT_EQ(Init(&made[0], 2, 0, a), ncclSuccess);
  EXPECT_EQ(InitRank(library, group,
                     {.out = &made[1], .ranks = 2, .ids = &b, .config = &config}),
            ncclInvalidArgument);
  EXPECT_EQ(group.End(library), ncclInvalidArgument);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(CreationTest, ShrinksToThoseThatAreNotExcluded) {
  ncclComm_t parent = MakeCommunicator(8, 6);
  AnswerSplits(6, 4);
  int excluded[] = {7, 2, 7};
  ncclComm_t child = nullptr;
  const auto shrink = [&](int* list, int count) {
    return Shrink(
        library, group,
        {.parent = parent, .excluded = list, .excluded_count = count, .out = &child});
  };
  int itself[] = {6};
  EXPECT_EQ(shrink(nullptr, 1), ncclInvalidArgument);
  EXPECT_EQ(shrink(excluded, 0), ncclInvalidArgument);
  EXPECT_EQ(shrink(itself, 1), ncclInvalidArgument);
  ASSERT_EQ(shrink(excluded, 3), ncclSuccess);
  const auto written = channel.records(Kind::kCommSplit);
  ASSERT_EQ(written.size(), 1u);
  const auto question = written[0].as<protocol::CommSplit>();
  ASSERT_EQ(question.excluded, 2u);
  uint32_t list[2];
  memcpy(list, written[0].tail<protocol::CommSplit>().data(), sizeof list);
  EXPECT_THAT(list, ElementsAre(2u, 7u));
  EXPECT_EQ(Communicator::From(child)->ranks, 6u);
  EXPECT_EQ(Communicator::From(child)->rank, 4u);
}

TEST_F(CreationTest, SplitsByTheEmulatorsAnswer) {
  gpu.current_device = 1;
  ncclComm_t parent = MakeCommunicator(8, 6);
  gpu.current_device = 0;
  AnswerSplits(4, 2);
  ncclComm_t child = nullptr;
  ASSERT_EQ(Split(library, group, parent, 7, -3, &child, nullptr), ncclSuccess);
  auto questions = Records<protocol::CommSplit>(Kind::kCommSplit);
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].parent, 1u);
  EXPECT_EQ(questions[0].communicator, 2u);
  EXPECT_EQ(questions[0].color, 7);
  EXPECT_EQ(questions[0].key, -3);
  const Communicator* made = Communicator::From(child);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(made->ranks, 4u);
  EXPECT_EQ(made->rank, 2u);
  EXPECT_EQ(made->device, 1);
}

TEST_F(CreationTest, MakesNothingOfNoColor) {
  ncclComm_t parent = MakeCommunicator(8, 6);
  const size_t reserved = gpu.reserved.size();
  auto child = reinterpret_cast<ncclComm_t>(0x1234);
  ASSERT_EQ(Split(library, group, parent, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr),
            ncclSuccess);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(gpu.reserved.size(), reserved);
  EXPECT_EQ(Records<protocol::CommSplit>(Kind::kCommSplit).at(0).color,
            protocol::kNoColor);
  AnswerSplits(1, 0);
  ASSERT_EQ(Split(library, group, parent, 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(Communicator::From(child)->number, 3u);
}

TEST_F(CreationTest, SetsAChildNullUntilItIsComplete) {
  ncclComm_t parent = MakeCommunicator(8, 6);
  AnswerSplits(8, 6);
  auto child = reinterpret_cast<ncclComm_t>(0x1234);
  group.Start();
  EXPECT_EQ(Split(library, group, parent, 0, 6, &child, nullptr), ncclSuccess);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(group.End(library), ncclSuccess);
  EXPECT_NE(Communicator::From(child), nullptr);
  EXPECT_EQ(Split(library, group, nullptr, 0, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(Split(library, group, parent, 0, 0, nullptr, nullptr), ncclInvalidArgument);
}

TEST_F(CreationTest, InheritsTheParentsConfig) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "parent";
  ncclComm_t parent = nullptr, child = nullptr;
  ASSERT_EQ(InitRank(library, group,
                     {.out = &parent, .ranks = 2, .ids = &id, .config = &config}),
            ncclSuccess);
  AnswerSplits(2, 0);
  ASSERT_EQ(Split(library, group, parent, 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(Communicator::From(child)->config.name, "parent");
  config.commName = "child";
  ASSERT_EQ(Split(library, group, parent, 0, 0, &child, &config), ncclSuccess);
  EXPECT_EQ(Communicator::From(child)->config.name, "child");
}

TEST_F(CreationTest, FailsWhenTheSessionIsCalledOff) {
  ncclComm_t parent = MakeCommunicator(8, 6);
  channel.is_aborting = true;
  ncclComm_t communicator = nullptr;
  EXPECT_EQ(Init(&communicator, 2, 0, library.NewUniqueId(nullptr)), ncclRemoteError);
  EXPECT_EQ(Split(library, group, parent, 0, 0, &communicator, nullptr),
            ncclRemoteError);
  EXPECT_EQ(communicator, nullptr);
}

TEST(UniqueIdTest, IsTheSameInEveryRunAndDifferentWithinAJob) {
  auto bytes = [](const ncclUniqueId& id) {
    return std::string(id.internal, sizeof id.internal);
  };
  EXPECT_EQ(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 3, 2)));
  EXPECT_NE(bytes(MakeUniqueId(nullptr, 3, 1)), bytes(MakeUniqueId(nullptr, 1, 3)));
  EXPECT_EQ(bytes(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            bytes(MakeUniqueId("127.0.0.1:5000", 0, 1)));
  EXPECT_NE(bytes(MakeUniqueId("127.0.0.1:5000", 3, 1)),
            bytes(MakeUniqueId("127.0.0.1:5000", 3, 2)));
  EXPECT_EQ(bytes(MakeUniqueId("", 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
}

TEST(UniqueIdTest, HashesChildrenByParentSplitAndColor) {
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(2, 0, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 1, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 0, 1));
}

}  // namespace
}  // namespace vrank::nccl
