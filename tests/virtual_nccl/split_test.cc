// Communicators made from others, and what every creation has in common.

#include <gmock/gmock.h>

#include "tests/virtual_nccl/creation_fixture.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"
#include "virtual_nccl/core/unique_id.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;

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
  int excluded[] = {7, 2};
  int twice[] = {7, 2, 7}, unknown[] = {8}, negative[] = {-1};
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
  // NCCL would number ranks that do not exist.
  EXPECT_EQ(shrink(twice, 3), ncclInvalidArgument);
  EXPECT_EQ(shrink(unknown, 1), ncclInvalidArgument);
  EXPECT_EQ(shrink(negative, 1), ncclInvalidArgument);
  ASSERT_EQ(shrink(excluded, 2), ncclSuccess);
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

TEST_F(CreationTest, RefusesByNameToGoOnWithoutAFailedRank) {
  ncclComm_t parent = MakeCommunicator(8, 6), child = nullptr;
  channel.is_aborting = true;
  int excluded[] = {1};
  EXPECT_EQ(Shrink(library, group,
                   {.parent = parent,
                    .excluded = excluded,
                    .excluded_count = 1,
                    .out = &child,
                    .flags = NCCL_SHRINK_ABORT}),
            ncclRemoteError);
  EXPECT_NE(
      std::string(LastError()).find("ncclCommShrink : NCCL_SHRINK_ABORT cannot go on"),
      std::string::npos);
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
  EXPECT_EQ(Abort(library, communicator), ncclSuccess);
  EXPECT_EQ(Split(library, group, parent, 0, 0, &communicator, nullptr),
            ncclRemoteError);
  EXPECT_EQ(communicator, nullptr);
}

}  // namespace
}  // namespace vrank::nccl
