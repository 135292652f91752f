#include "graph/import/transfer_peers.h"

#include <vector>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

constexpr int64_t kUs = 1'000;

// Ranks with transfers of unknown peers; each is added with its expected peer.
class TransferPeersTest : public testing::Test {
 protected:
  explicit TransferPeersTest(int32_t ranks = 4) : recordings_(ranks) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      RankCommunication one;
      one.rank = rank;
      one.recording = &recordings_[static_cast<size_t>(rank)];
      ranks_.push_back(std::move(one));
    }
    expected_.resize(static_cast<size_t>(ranks));
  }

  // Both sides end at that time, up to what clocks differ by.
  void Transfer(int32_t from, int32_t to, int64_t end_us, uint64_t elements = 100) {
    Part(from, true, end_us, elements, to);
    Part(to, false, end_us + 5, elements, from);
  }
  void Part(int32_t rank, bool is_send, int64_t end_us, uint64_t elements,
            int32_t expected) {
    const auto at = static_cast<size_t>(rank);
    DeviceWork work;
    work.time = {(end_us - 100) * kUs, end_us * kUs};
    TransferUse use;
    use.work = static_cast<uint32_t>(recordings_[at].works.size());
    use.group = "0";
    use.is_batch = true;
    use.parts = {{is_send, kUnknownPeer, elements, ElementType::kFloat32}};
    recordings_[at].works.push_back(work);
    ranks_[at].transfers.push_back(use);
    if (expected != kUnknownPeer)
      expected_[at].push_back(expected);
  }
  void ExpectPeers() {
    InferPeers(&ranks_, &losses_);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<int32_t> peers;
      for (const TransferUse& use : ranks_[rank].transfers)
        for (const TransferPart& part : use.parts)
          peers.push_back(part.peer);
      EXPECT_EQ(peers, expected_[rank]) << "rank " << rank;
    }
  }
  uint64_t Lost(ImportLoss loss) {
    uint64_t sum = 0;
    for (auto& [rank, losses] : losses_)
      sum += losses[loss];
    return sum;
  }

  std::vector<Recording> recordings_;
  std::vector<RankCommunication> ranks_;
  std::vector<std::vector<int32_t>> expected_;
  std::map<int32_t, ImportLosses> losses_;
};

TEST_F(TransferPeersTest, BothSidesEndTogether) {
  for (int64_t step = 0; step < 3; ++step) {
    Transfer(0, 1, 1'000 * step + 200);
    Transfer(1, 2, 1'000 * step + 400);
    Transfer(2, 1, 1'000 * step + 600);
    Transfer(1, 0, 1'000 * step + 800);
  }
  ExpectPeers();
  EXPECT_EQ(Lost(ImportLoss::kInferredPeers), 24u);
  EXPECT_EQ(Lost(ImportLoss::kPointToPoint), 0u);
}

TEST_F(TransferPeersTest, OfTransfersInStepThoseThatAreKnownElsewhereCount) {
  Transfer(0, 1, 200);
  Transfer(2, 3, 500);
  for (int64_t step = 1; step < 4; ++step) {  // both at once
    Transfer(0, 1, 1'000 * step);
    Transfer(2, 3, 1'000 * step + 3);
  }
  ExpectPeers();
}

TEST_F(TransferPeersTest, WhatNothingTellsApartIsLeftOut) {
  Part(0, true, 1'000, 100, kUnknownPeer);
  Part(2, true, 1'000, 100, kUnknownPeer);
  Part(1, false, 1'000, 100, kUnknownPeer);
  Part(3, false, 1'000, 100, kUnknownPeer);
  ExpectPeers();
  EXPECT_EQ(Lost(ImportLoss::kPointToPoint), 4u);
  EXPECT_EQ(Lost(ImportLoss::kInferredPeers), 0u);
}

TEST_F(TransferPeersTest, OtherSizesAndOtherTimesAreOtherTransfers) {
  Transfer(0, 1, 1'000, 100);
  Transfer(2, 3, 1'000, 200);
  Part(0, true, 5'000, 100, kUnknownPeer);
  Part(1, false, 6'000, 100, kUnknownPeer);
  ExpectPeers();
  EXPECT_EQ(Lost(ImportLoss::kPointToPoint), 2u);
}

TEST_F(TransferPeersTest, PeersThatAreKnownStay) {
  Transfer(0, 1, 1'000);
  ranks_[0].transfers[0].parts[0].peer = 3;
  expected_[0] = {3};
  expected_[1] = {};
  ExpectPeers();
}

}  // namespace
}  // namespace vrank::graph
