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

TEST_F(CreationTest, RefusesTwoMembersInOneProcess) {
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT_EQ(Init(&first, 2, 0, id), ncclSuccess);
  EXPECT_EQ(Init(&second, 2, 1, id), ncclInvalidUsage);
  EXPECT_NE(std::string(LastError()).find("one process per GPU"), std::string::npos);
  // The same rank again: NCCL_COMM_ID names several communicators, one after another.
  EXPECT_EQ(Init(&second, 2, 0, id), ncclSuccess);
}

TEST_F(CreationTest, InitializesAllOfOneDevice) {
  channel.mutable_settings().devices = 4;
  ncclComm_t communicators[2] = {};
  const int three[] = {3}, twice[] = {1, 1}, beyond[] = {4}, two[] = {0, 1};
  EXPECT_EQ(InitAll(library, group, nullptr, 1, three), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, -1, three), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, 1, beyond), ncclInvalidArgument);
  EXPECT_EQ(InitAll(library, group, communicators, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(InitAll(library, group, communicators, 2, two), ncclInvalidUsage);
  EXPECT_TRUE(channel.records().empty());
  ASSERT_EQ(InitAll(library, group, communicators, 1, three), ncclSuccess);
  EXPECT_EQ(Communicator::From(communicators[0])->device, 3);
  EXPECT_EQ(Records<protocol::CommInit>(Kind::kCommInit).at(0).ranks, 1u);
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
            bytes(MakeUniqueId("127.0.0.1:5000", 0, 7)));
  EXPECT_EQ(bytes(MakeUniqueId("", 3, 1)), bytes(MakeUniqueId(nullptr, 3, 1)));
}

TEST(UniqueIdTest, HashesChildrenByParentSplitAndColor) {
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(2, 0, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 1, 0));
  EXPECT_NE(HashOfChild(1, 0, 0), HashOfChild(1, 0, 1));
}

}  // namespace
}  // namespace vrank::nccl
