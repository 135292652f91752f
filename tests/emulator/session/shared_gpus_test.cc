#include "emulator/session/shared_gpus.h"

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

protocol::CommInit Init(uint8_t id, uint32_t member, uint32_t device) {
  protocol::CommInit init{};
  init.rank = member;
  init.device = device;
  init.unique_id[0] = id;
  return init;
}

TEST(SharedGpusTest, NamesTheFirstOtherMemberOnTheSameGpu) {
  SharedGpus gpus(4);
  gpus.Join(2, 10, Init(1, 0, 5));
  gpus.Join(3, 11, Init(1, 1, 6));
  gpus.Join(1, 12, Init(1, 2, 5));
  gpus.Join(0, 13, Init(1, 3, 5));
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
  for (const auto& [rank, op] : {std::pair(3, 0), {4, 0}, {3, 1}, {0, 5}, {1, 5}})
    EXPECT_EQ(gpus.Take(rank, static_cast<uint64_t>(op)), 0u);
  EXPECT_EQ(gpus.Take(3, 0), std::nullopt);  // once
  EXPECT_EQ(gpus.Take(7, 7), std::nullopt);  // no init
}

TEST(SharedGpusTest, WithoutNodesNobodySharesOne) {
  SharedGpus gpus(0);
  gpus.Join(0, 0, Init(1, 0, 0));
  gpus.Join(1, 0, Init(1, 1, 0));
  EXPECT_EQ(gpus.Take(0, 0), 0u);
  EXPECT_EQ(gpus.Take(1, 0), 0u);
}

// An id may be used again once its communicator exists.
TEST(SharedGpusTest, ForgetsWhoHasBeenAnswered) {
  SharedGpus gpus(8);
  for (uint64_t op = 0; op < 3; ++op) {
    gpus.Join(0, op, Init(1, 0, 0));
    gpus.Join(1, op, Init(1, 1, 1));
    EXPECT_EQ(gpus.Take(0, op), 0u);
    EXPECT_EQ(gpus.Take(1, op), 0u);
  }
}

}  // namespace
}  // namespace vrank::emulator
