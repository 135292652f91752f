#include "virtual_nccl/core/release.h"

#include <gtest/gtest.h>

#include "tests/virtual_nccl/nccl_fixture.h"

namespace vrank::nccl {
namespace {

class ReleaseTest : public NcclTest {};

TEST_F(ReleaseTest, FinalizesOnceAndThenDestroys) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_EQ(Finalize(library, communicator), ncclSuccess);
  EXPECT_EQ(Finalize(library, communicator), ncclInvalidArgument);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)),
            ncclInvalidArgument);
  EXPECT_EQ(Destroy(library, communicator), ncclSuccess);
  EXPECT_EQ(Destroy(library, communicator), ncclInvalidArgument);
  auto releases = Records<protocol::CommRelease>(Kind::kCommRelease);
  ASSERT_EQ(releases.size(), 2u);
  EXPECT_EQ(releases[0].release, protocol::ReleaseKind::kFinalize);
  EXPECT_EQ(releases[1].release, protocol::ReleaseKind::kDestroy);
  EXPECT_EQ(releases[1].communicator, 1u);
}

TEST_F(ReleaseTest, TakesNullHandles) {
  EXPECT_EQ(Finalize(library, nullptr), ncclSuccess);
  EXPECT_EQ(Destroy(library, nullptr), ncclSuccess);
  EXPECT_EQ(Abort(library, nullptr), ncclSuccess);
  EXPECT_TRUE(channel.records().empty());
}

TEST_F(ReleaseTest, AbortsAlsoWhatWasFinalized) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_EQ(Finalize(library, communicator), ncclSuccess);
  EXPECT_EQ(Abort(library, communicator), ncclSuccess);
  EXPECT_EQ(Records<protocol::CommRelease>(Kind::kCommRelease).back().release,
            protocol::ReleaseKind::kAbort);
}

TEST_F(ReleaseTest, TellsTheHealthOfLivingAndDeadCommunicators) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  ncclResult_t health = ncclInternalError;
  EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclSuccess);
  EXPECT_EQ(health, ncclSuccess);
  EXPECT_EQ(CommunicatorHealth(library, communicator, nullptr), ncclInvalidArgument);
  EXPECT_EQ(CommunicatorHealth(library, nullptr, &health), ncclInvalidArgument);
  channel.is_aborting = true;
  EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclSuccess);
  EXPECT_EQ(health, ncclRemoteError);
  EXPECT_EQ(Abort(library, communicator), ncclSuccess);
  EXPECT_EQ(CommunicatorHealth(library, communicator, &health), ncclInvalidArgument);
}

TEST_F(ReleaseTest, RemembersTheLatestDeadOnesOnly) {
  ncclComm_t first = MakeCommunicator(4, 1), last = nullptr;
  ncclResult_t health = ncclSuccess;
  for (int i = 0; i < 3000; ++i) {
    last = MakeCommunicator(4, 1);
    ASSERT_EQ(Destroy(library, last), ncclSuccess);
  }
  EXPECT_EQ(library.communicators(), 1u + 1024);
  EXPECT_EQ(CommunicatorHealth(library, last, &health), ncclInvalidArgument);
  EXPECT_EQ(CommunicatorHealth(library, first, &health), ncclSuccess);
}

TEST_F(ReleaseTest, TakesNoOperationOnceRevoked) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  EXPECT_EQ(Revoke(library, nullptr, 0), ncclSuccess);
  EXPECT_EQ(Revoke(library, communicator, 1), ncclInvalidArgument);
  ASSERT_EQ(Revoke(library, communicator, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(Records<protocol::CommRelease>(Kind::kCommRelease).at(0).release,
            protocol::ReleaseKind::kStop);
  EXPECT_EQ(Revoke(library, communicator, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(Finalize(library, communicator), ncclInvalidArgument);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator)), ncclInvalidUsage);
  channel.on_ask = [](const FakeChannel::Written&) {
    Answer answer;
    answer.value = uint64_t{4} << 32 | 1;
    return answer;
  };
  ncclComm_t child = nullptr;
  EXPECT_EQ(Split(library, group, communicator, 0, 1, &child, nullptr), ncclSuccess);
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, child)), ncclSuccess);
  EXPECT_EQ(Destroy(library, communicator), ncclSuccess);
}

}  // namespace
}  // namespace vrank::nccl
