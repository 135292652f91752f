// Calls that NCCL has since 2.29: growing communicators, and their memory.

#include <gmock/gmock.h>

#include "tests/virtual_nccl/creation_fixture.h"
#include "virtual_nccl/core/error.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

using ::testing::HasSubstr;

class NewerCallsTest : public CreationTest {
 protected:
  ncclResult_t Grow(const GrowArguments& arguments) {
    return nccl::Grow(library, group, arguments);
  }
  std::vector<protocol::CommInit> Inits() {
    return Records<protocol::CommInit>(Kind::kCommInit);
  }
  uint64_t Statistic(ncclComm_t communicator, int statistic) {
    uint64_t value = ~uint64_t{0};
    EXPECT_EQ(MemoryStatistic(library, communicator, statistic, &value), ncclSuccess);
    return value;
  }
};

TEST_F(NewerCallsTest, MembersGrowWithTheIdThatTheRootHandsOut) {
  ncclComm_t root = MakeCommunicator(4, 1), grown = nullptr, joined = nullptr;
  ncclUniqueId id{};
  ASSERT_EQ(GrowId(library, root, &id), ncclSuccess);
  EXPECT_EQ(GrowId(library, root, &id), ncclInvalidUsage);  // not used yet
  ASSERT_EQ(Grow({.parent = root, .ranks = 6, .out = &grown}), ncclSuccess);
  ASSERT_EQ(Grow({.ranks = 6, .id = &id, .rank = 5, .out = &joined}), ncclSuccess);
  const auto inits = Inits();
  ASSERT_EQ(inits.size(), 2u);
  EXPECT_EQ(memcmp(inits[0].unique_id, inits[1].unique_id, sizeof id), 0);
  EXPECT_EQ(inits[0].ranks, 6u);
  EXPECT_EQ(inits[0].rank, 1u);  // keeps its place
  EXPECT_EQ(inits[1].rank, 5u);
  EXPECT_EQ(Communicator::From(grown)->hash, Communicator::From(joined)->hash);
  // The parent stays; its next id is another one.
  ncclUniqueId next{};
  ASSERT_EQ(GrowId(library, root, &next), ncclSuccess);
  EXPECT_NE(memcmp(&next, &id, sizeof id), 0);
  EXPECT_EQ(Grow({.parent = root, .ranks = 6, .id = &id, .out = &grown}),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("was used before"));
}

TEST_F(NewerCallsTest, ChecksWhatAGrowPasses) {
  ncclComm_t parent = MakeCommunicator(4, 1), grown = nullptr;
  EXPECT_EQ(Grow({.parent = parent, .ranks = 4, .out = &grown}), ncclInvalidArgument);
  EXPECT_EQ(Grow({.parent = parent, .ranks = 6, .rank = 1, .out = &grown}),
            ncclInvalidArgument);
  EXPECT_EQ(Grow({.parent = parent, .ranks = 6}), ncclInvalidArgument);
  EXPECT_EQ(Grow({.ranks = 6, .rank = 5, .out = &grown}), ncclInvalidArgument);
  EXPECT_TRUE(Inits().empty());
}

TEST_F(NewerCallsTest, SuspendingGivesTheMemoryBack) {
  ncclComm_t communicator = nullptr;
  const ncclUniqueId id = library.NewUniqueId(nullptr);
  ASSERT_EQ(Init(&communicator, 4, 1, id), ncclSuccess);
  const uint64_t bytes = Statistic(communicator, 3);
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(Statistic(communicator, 0), bytes);
  EXPECT_EQ(Resume(library, communicator), ncclInvalidUsage);
  EXPECT_EQ(Suspend(library, communicator, 0), ncclInvalidArgument);
  ASSERT_EQ(Suspend(library, communicator, 1), ncclSuccess);
  EXPECT_EQ(Suspend(library, communicator, 1), ncclInvalidUsage);
  EXPECT_EQ(Statistic(communicator, 1), 1u);
  EXPECT_EQ(Statistic(communicator, 3), 0u);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("suspended"));
  ASSERT_EQ(Resume(library, communicator), ncclSuccess);
  EXPECT_EQ(Statistic(communicator, 1), 0u);
  EXPECT_EQ(Statistic(communicator, 3), bytes);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclSuccess);
  uint64_t value = 0;
  EXPECT_EQ(MemoryStatistic(library, communicator, 4, &value), ncclInvalidArgument);
}

}  // namespace
}  // namespace vrank::nccl
