#include "emulator/world/shared_gpus.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

constexpr int32_t kFour[] = {0, 1, 2, 3};

protocol::CommInit Init(uint32_t number, uint32_t member, uint32_t device) {
  protocol::CommInit init{};
  init.local_members = 1;
  init.communicator = number;
  init.rank = member;
  init.device = device;
  return init;
}

TEST(SharedGpusTest, NamesTheFirstOtherMemberOnTheSameGpu) {
  SharedGpus gpus(4);
  gpus.Join(2, 10, Init(1, 0, 5));
  gpus.Join(3, 11, Init(1, 1, 6));
  gpus.Join(1, 12, Init(1, 2, 5));
  gpus.Join(0, 13, Init(1, 3, 5));
  for (int32_t rank = 0; rank < 4; ++rank)
    gpus.Bind(rank, 1, "world", {});
  EXPECT_EQ(gpus.Take(2, 10), 1 + 2u);
  EXPECT_EQ(gpus.Take(3, 11), 0u);
  EXPECT_EQ(gpus.Take(1, 12), 1 + 0u);
  EXPECT_EQ(gpus.Take(0, 13), 1 + 0u);
}

TEST(SharedGpusTest, OtherNodesCommunicatorsAndUnknownDevicesShareNothing) {
  SharedGpus gpus(4);
  gpus.Join(3, 0, Init(1, 0, 0));
  gpus.Join(4, 0, Init(1, 1, 0));  // the next node
  gpus.Join(3, 1, Init(2, 0, 0));
  for (int32_t rank = 0; rank < 2; ++rank)
    gpus.Join(rank, 5, Init(3, static_cast<uint32_t>(rank), protocol::kNone));
  gpus.Bind(3, 1, "a", {});
  gpus.Bind(4, 1, "a", {});
  gpus.Bind(3, 2, "b", {});
  gpus.Bind(0, 3, "c", {});
  gpus.Bind(1, 3, "c", {});
  gpus.Bind(1, 4, "d", {});  // of a split
  for (const auto& [rank, op] : {std::pair(3, 0), {4, 0}, {3, 1}, {0, 5}, {1, 5}})
    EXPECT_EQ(gpus.Take(rank, static_cast<uint64_t>(op)), 0u);
  EXPECT_EQ(gpus.Take(3, 0), std::nullopt);  // once
  EXPECT_EQ(gpus.Take(7, 7), std::nullopt);  // no init
}

// Two rows and two columns that are under way at once, a GPU for each rank.
TEST(SharedGpusTest, RanksOfSeveralCommunicatorsAreComparedInEach) {
  SharedGpus gpus(4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    gpus.Join(static_cast<int32_t>(rank), 0, Init(1, rank % 2, rank));
    gpus.Join(static_cast<int32_t>(rank), 1, Init(2, rank / 2, rank));
  }
  for (int32_t rank = 0; rank < 4; ++rank) {
    gpus.Bind(rank, 1, rank < 2 ? "row 0" : "row 1", {});
    gpus.Bind(rank, 2, rank % 2 == 0 ? "column 0" : "column 1", {});
  }
  for (int32_t rank = 0; rank < 4; ++rank)
    for (uint64_t op = 0; op < 2; ++op)
      EXPECT_EQ(gpus.Take(rank, op), 0u);
}

// What a program does that never chooses a device, though one rank alone is real.
TEST(SharedGpusTest, ARankOnTheFirstGpuOfAnotherOneMeetsIt) {
  constexpr uint64_t kRankZero = 1 | protocol::kTwinIsPlayed;
  SharedGpus gpus(4);
  gpus.Join(1, 0, Init(1, 1, 0));
  gpus.Bind(1, 1, "world", kFour);
  EXPECT_EQ(gpus.Take(1, 0), kRankZero);
}

TEST(SharedGpusTest, RanksThatChooseADeviceMeetNoPlayedOne) {
  SharedGpus gpus(4);
  gpus.Join(0, 0, Init(1, 0, 0));  // its own
  gpus.Bind(0, 1, "world", kFour);
  EXPECT_EQ(gpus.Take(0, 0), 0u);
  gpus.Join(1, 0, Init(1, 1, 2));
  gpus.Bind(1, 1, "world", kFour);
  EXPECT_EQ(gpus.Take(1, 0), 0u);
  // Numbered from the last GPU on, as the other real rank shows.
  gpus.Join(0, 1, Init(2, 0, 3));
  gpus.Join(3, 1, Init(2, 3, 0));
  gpus.Bind(0, 2, "reversed", kFour);
  gpus.Bind(3, 2, "reversed", kFour);
  EXPECT_EQ(gpus.Take(0, 1), 0u);
  EXPECT_EQ(gpus.Take(3, 1), 0u);
  // Ranks of other nodes have GPUs of their own.
  constexpr int32_t kOnePerNode[] = {1, 5};
  gpus.Join(1, 2, Init(3, 0, 0));
  gpus.Bind(1, 3, "column", kOnePerNode);
  EXPECT_EQ(gpus.Take(1, 2), 0u);
  // A process with several members has chosen.
  protocol::CommInit several = Init(4, 2, 0);
  several.local_members = 2;
  gpus.Join(1, 3, several);
  gpus.Bind(1, 4, "several", kFour);
  EXPECT_EQ(gpus.Take(1, 3), 0u);
}

TEST(SharedGpusTest, WithoutNodesNobodySharesOne) {
  SharedGpus gpus(0);
  gpus.Join(0, 0, Init(1, 0, 0));
  gpus.Join(1, 0, Init(1, 1, 0));
  gpus.Bind(0, 1, "world", {});
  gpus.Bind(1, 1, "world", {});
  EXPECT_EQ(gpus.Take(0, 0), 0u);
  EXPECT_EQ(gpus.Take(1, 0), 0u);
}

// A name may be used again once its communicator exists; who withdraws is in none.
TEST(SharedGpusTest, ForgetsWhoHasBeenAnswered) {
  SharedGpus gpus(8);
  for (uint64_t op = 0; op < 3; ++op) {
    gpus.Join(0, op, Init(1, 0, 0));
    gpus.Join(1, op, Init(1, 1, 1));
    gpus.Join(2, op, Init(1, 2, 0));
    EXPECT_EQ(gpus.Take(2, op), 0u);
    gpus.Bind(0, 1, "world", {});
    gpus.Bind(1, 1, "world", {});
    EXPECT_EQ(gpus.Take(0, op), 0u);
    EXPECT_EQ(gpus.Take(1, op), 0u);
  }
}

}  // namespace
}  // namespace vrank::emulator
