// What each operation leaves in its receive buffer on a real GPU, by the mirror policy.

#include "virtual_nccl/core/held_result.h"

#include <gtest/gtest.h>

namespace vrank::nccl {
namespace {

using protocol::CollectiveKind;
using protocol::Reduction;

constexpr uint32_t kRanks = 4, kRank = 2;
constexpr uint64_t kCount = 16, kBytes = kCount * 4;

class HeldResultTest : public testing::Test {
 protected:
  HeldResult Of(CollectiveKind operation, Reduction reduction = Reduction::kSum,
                uint32_t root = kRank) {
    Call call{};
    call.communicator = &communicator_;
    call.kind = Request::kCollective;
    call.operation = operation;
    call.type = protocol::ElementType::kFloat32;
    call.reduction = reduction;
    call.send = send_;
    call.receive = receive_;
    call.count = kCount;
    call.root = root;
    call.multiplier.scalar[0] = 7;
    return HeldResultOf(call);
  }
  void ExpectResult(const HeldResult& result, uint64_t from, uint32_t times,
                    uint32_t members) {
    EXPECT_EQ(result.to, receive_);
    EXPECT_EQ(result.from, send_ + from);
    EXPECT_EQ(result.bytes, kBytes);
    EXPECT_EQ(result.times, times);
    EXPECT_EQ(result.members, members);
  }

  Communicator communicator_{1, kRanks, kRank, 0, 1, 1, Config{}};
  unsigned char send_[kRanks * kBytes] = {}, receive_[kRanks * kBytes] = {};
};

TEST_F(HeldResultTest, SumsAreOfAllMembersAndOthersAreTheValue) {
  ExpectResult(Of(CollectiveKind::kAllReduce), 0, 1, kRanks);
  for (const Reduction reduction :
       {Reduction::kProd, Reduction::kMax, Reduction::kMin, Reduction::kAvg})
    ExpectResult(Of(CollectiveKind::kAllReduce, reduction), 0, 1, 1);
  EXPECT_FALSE(Of(CollectiveKind::kAllReduce).multiplied);
  const HeldResult multiplied = Of(CollectiveKind::kAllReduce, Reduction::kPreMulSum);
  ExpectResult(multiplied, 0, 1, kRanks);
  EXPECT_TRUE(multiplied.multiplied);
  EXPECT_EQ(multiplied.scalar[0], 7);
}

TEST_F(HeldResultTest, GathersRepeatAndScattersTakeTheOwnBlock) {
  ExpectResult(Of(CollectiveKind::kAllGather), 0, kRanks, 1);
  ExpectResult(Of(CollectiveKind::kGather), 0, kRanks, 1);
  ExpectResult(Of(CollectiveKind::kReduceScatter), kRank * kBytes, 1, kRanks);
  ExpectResult(Of(CollectiveKind::kAllToAll), kRank * kBytes, kRanks, 1);
  ExpectResult(Of(CollectiveKind::kScatter), kRank * kBytes, 1, 1);
  ExpectResult(Of(CollectiveKind::kBroadcast), 0, 1, 1);
  ExpectResult(Of(CollectiveKind::kReduce), 0, 1, kRanks);
}

TEST_F(HeldResultTest, WhereAnotherRankIsTheRootTheBufferStays) {
  for (const CollectiveKind operation :
       {CollectiveKind::kBroadcast, CollectiveKind::kScatter, CollectiveKind::kReduce,
        CollectiveKind::kGather})
    EXPECT_EQ(Of(operation, Reduction::kSum, 0).times, 0u);
}

}  // namespace
}  // namespace vrank::nccl
