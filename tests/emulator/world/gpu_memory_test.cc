#include "emulator/world/gpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using graph::MemoryOwner;
using graph::Op;
using graph::OpKind;

Op Memory(uint32_t device, int64_t bytes, MemoryOwner owner = MemoryOwner::kProgram) {
  return Op{.kind = OpKind::kMemory,
            .value = bytes,
            .a = device,
            .b = static_cast<uint32_t>(owner)};
}

// Four real ranks of a node of four GPUs.
class GpuMemoryTest : public testing::Test {
 protected:
  GpuMemoryTest() : memory(4, 4) {
    for (int32_t rank = 0; rank < 4; ++rank)
      memory.AddReal(rank);
  }
  GpuMemory memory;
};

TEST_F(GpuMemoryTest, OthersCountUpToTheTimeAndByRankAtIt) {
  memory.Change(0, Memory(0, 30), 100);
  memory.Change(2, Memory(0, 5), 100);
  memory.Change(3, Memory(3, 70), 50);  // another GPU
  EXPECT_EQ(memory.HeldByOthers(1, 0, 99, 10), 0u);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 100, 10), 30u);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 101, 10), 35u);
  EXPECT_EQ(memory.HeldByOthers(3, 0, 100, 10), 35u);
  // What is taken later, though it is known by now, does not count.
  memory.Change(0, Memory(0, 40), 900);
  memory.Change(0, Memory(0, -60), 1000);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 500, 10), 35u);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 900, 10), 75u);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 1000, 10), 15u);
}

TEST_F(GpuMemoryTest, AProcessThatHasEndedHoldsNothing) {
  memory.Change(0, Memory(0, 30), 100);
  memory.End(0, 200);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 200, 1), 30u);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 201, 1), 0u);
}

TEST_F(GpuMemoryTest, ThePeakIsThatOfTheSum) {
  memory.Change(0, Memory(0, 2, MemoryOwner::kContext), 10);
  memory.Change(0, Memory(0, 50), 100);
  memory.Change(0, Memory(0, -45), 200);
  memory.Change(1, Memory(1, 60), 100);
  memory.Change(1, Memory(0, 3, MemoryOwner::kContext), 250);
  memory.Change(1, Memory(0, 44), 300);
  memory.Change(1, Memory(0, 10, MemoryOwner::kCommunicator), 310);
  memory.Change(1, Memory(0, -40), 320);
  const auto peaks = memory.SharedPeaks();
  ASSERT_EQ(peaks.size(), 1u);  // rank 1 is alone on GPU 1
  EXPECT_EQ(peaks[0].node, 0);
  EXPECT_EQ(peaks[0].device, 0u);
  EXPECT_EQ(peaks[0].bytes, 7 + 57);
  EXPECT_EQ(peaks[0].ns, 310);
  ASSERT_EQ(peaks[0].shares.size(), 2u);
  EXPECT_THAT(peaks[0].shares[0].bytes, testing::ElementsAre(5, 2, 0));
  EXPECT_THAT(peaks[0].shares[1].bytes, testing::ElementsAre(44, 3, 10));
  EXPECT_TRUE(memory.Strays().empty());  // all is known: every rank is real
}

TEST_F(GpuMemoryTest, MemoryThatIsGoneWhenTheOtherComesAddsNothing) {
  memory.Change(0, Memory(0, 50), 100);
  memory.End(0, 200);
  memory.Change(1, Memory(0, 60), 300);
  EXPECT_EQ(memory.SharedPeaks()[0].bytes, 60);
}

// One rank is real and strays to GPU 0; the others do as it does.
TEST(GpuMemoryFollowersTest, StrayWithTheirLeader) {
  GpuMemory memory(4, 4);
  memory.AddReal(1);
  for (const int32_t rank : {0, 2, 3, 4, 5, 6, 7})
    memory.AddFollower(rank, 1);
  memory.Change(1, Memory(1, 20), 10);
  // At the same time ranks of lower numbers have taken theirs, the others have not.
  EXPECT_EQ(memory.HeldByOthers(1, 0, 20, 30), 20u + 30u);
  memory.Change(1, Memory(0, 30), 20);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 30, 5), 20u + 3 * 30u + 5u);
  EXPECT_EQ(memory.HeldByOthers(1, 1, 30, 5), 0u);  // rank 0's own is GPU 0
  const auto peaks = memory.SharedPeaks();
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0].bytes, 20 + 4 * 30);
  EXPECT_EQ(peaks[0].nodes, 2);
  ASSERT_EQ(peaks[0].shares.size(), 4u);
  EXPECT_EQ(peaks[0].shares[0].total(), 50);  // its own GPU, and what strays
  EXPECT_FALSE(peaks[0].shares[0].is_real);
  EXPECT_TRUE(peaks[0].shares[1].is_real);
  const auto strays = memory.Strays();
  ASSERT_EQ(strays.size(), 1u);
  EXPECT_EQ(strays[0].rank, 1);
  EXPECT_EQ(strays[0].device, 0u);
  EXPECT_EQ(strays[0].peak_bytes, 30);
}

// The rank that owns the GPU strays to its own: a process has one context on a GPU.
TEST(GpuMemoryFollowersTest, HaveOneContextOnTheGpuThatTheyOwn) {
  GpuMemory memory(4, 4);
  for (const int32_t rank : {0, 2, 3})
    memory.AddFollower(rank, 1);
  memory.AddReal(1);
  memory.Change(1, Memory(1, 5, MemoryOwner::kContext), 10);
  memory.Change(1, Memory(1, 100), 20);
  memory.Change(1, Memory(0, 5, MemoryOwner::kContext), 30);
  memory.Change(1, Memory(0, 40), 40);
  const auto peaks = memory.SharedPeaks();
  ASSERT_EQ(peaks.size(), 1u);
  EXPECT_EQ(peaks[0].device, 0u);
  EXPECT_EQ(peaks[0].bytes, (5 + 100 + 40) + 3 * (5 + 40));
  EXPECT_THAT(peaks[0].shares[0].bytes, testing::ElementsAre(140, 5, 0));
  EXPECT_THAT(peaks[0].shares[1].bytes, testing::ElementsAre(40, 5, 0));
  // The same to the rank that asks; ranks above it take as much at that time, later.
  EXPECT_EQ(memory.HeldByOthers(1, 0, 50, 7), uint64_t{145 + 7 + 2 * 45});
}

TEST(GpuMemoryFollowersTest, HaveGpusOfTheirOwnWhereTheLeaderHas) {
  GpuMemory memory(4, 4);
  memory.AddReal(2);
  for (const int32_t rank : {0, 1, 3})
    memory.AddFollower(rank, 2);
  memory.Change(2, Memory(2, 70), 10);
  EXPECT_TRUE(memory.SharedPeaks().empty());
  EXPECT_TRUE(memory.Strays().empty());
  // On GPU 0 alone: no device was chosen.
  GpuMemory chosen(4, 4);
  chosen.AddReal(2);
  chosen.AddFollower(3, 2);
  chosen.Change(2, Memory(0, 70), 10);
  ASSERT_EQ(chosen.SharedPeaks().size(), 1u);
  EXPECT_EQ(chosen.SharedPeaks()[0].bytes, 140);
}

// GPUs are dealt out in another order: no rank strays, as far as can be told.
TEST(GpuMemoryFollowersTest, FollowADealInAnotherOrder) {
  GpuMemory memory(4, 4);
  for (const int32_t rank : {0, 3})
    memory.AddReal(rank);
  for (const int32_t rank : {1, 2})
    memory.AddFollower(rank, 3);
  memory.Change(0, Memory(3, 70), 10);
  memory.Change(3, Memory(0, 70), 10);
  EXPECT_TRUE(memory.SharedPeaks().empty());
  EXPECT_EQ(memory.Strays().size(), 2u);
}

// Two processes with four GPUs each.
TEST(GpuMemoryFollowersTest, HaveAsManyGpusAsTheirLeader) {
  GpuMemory memory(2, 8);
  memory.AddReal(0);
  memory.AddFollower(1, 0);
  for (const uint32_t device : {0, 1, 2, 3})
    memory.Change(0, Memory(device, 70), 10);
  EXPECT_TRUE(memory.SharedPeaks().empty());
}

TEST(GpuMemoryFollowersTest, NothingIsSharedWithoutNodes) {
  GpuMemory memory(0, 0);
  memory.AddReal(0);
  memory.AddReal(1);
  memory.Change(0, Memory(0, 70), 10);
  memory.Change(1, Memory(0, 70), 10);
  EXPECT_EQ(memory.HeldByOthers(1, 0, 20, 1), 0u);
  EXPECT_TRUE(memory.SharedPeaks().empty());
}

// Of ranks that play recorded programs, or are absent, nothing is known.
TEST(GpuMemoryFollowersTest, AStrayToAGpuOfAnUnknownRankIsNamed) {
  GpuMemory memory(4, 4);
  memory.AddReal(1);
  memory.AddOther(0);
  memory.Change(1, Memory(1, 70), 10);
  memory.Change(1, Memory(0, 9), 10);
  memory.Change(1, Memory(3, 9), 10);  // no rank's
  ASSERT_EQ(memory.Strays().size(), 1u);
  EXPECT_EQ(memory.Strays()[0].peak_bytes, 9);
}

}  // namespace
}  // namespace vrank::emulator
