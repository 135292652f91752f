#include "emulator/world/peak_blocks.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using protocol::AllocatorBlock;
using protocol::BlockChange;

AllocatorBlock Taken(uint64_t address, uint64_t bytes, bool in_backward = false,
                     uint32_t device = 0) {
  return {address, bytes,
          in_backward ? BlockChange::kTakenInBackward : BlockChange::kTaken, device};
}
AllocatorBlock GivenBack(uint64_t address, uint32_t device = 0) {
  return {address, 0, BlockChange::kGivenBack, device};
}

class PeakBlocksTest : public testing::Test {
 protected:
  // Before a kernel of that name.
  void Add(std::vector<AllocatorBlock> changes, const char* kernel) {
    blocks_.Add(program_, changes, true);
    program_.Append(
        graph::Op{.kind = graph::OpKind::kWork, .a = program_.AddName(kernel)});
  }
  std::optional<PeakBlocks::Peak> Most() { return blocks_.Most(program_); }

  graph::Program program_{/*retain=*/true};
  PeakBlocks blocks_;
};

TEST_F(PeakBlocksTest, HasNoPeakWithoutBlocks) {
  EXPECT_FALSE(Most().has_value());
}

TEST_F(PeakBlocksTest, KeepsWhatIsGivenBackAfterThePeak) {
  Add({Taken(1, 100)}, "fill");
  Add({Taken(2, 50), GivenBack(2), Taken(3, 200, true)}, "multiply");
  Add({GivenBack(1), GivenBack(3), Taken(1, 10)}, "update");
  const auto peak = Most();
  ASSERT_TRUE(peak.has_value());
  EXPECT_EQ(peak->bytes, 300u);
  EXPECT_EQ(peak->op, 1u);
  ASSERT_EQ(peak->blocks.size(), 2u);
  EXPECT_EQ(peak->blocks[0].bytes, 100u);
  EXPECT_EQ(peak->blocks[0].launched, "fill");
  EXPECT_FALSE(peak->blocks[0].in_backward);
  EXPECT_EQ(peak->blocks[1].bytes, 200u);
  EXPECT_EQ(peak->blocks[1].launched, "multiply");
  EXPECT_TRUE(peak->blocks[1].in_backward);
}

TEST_F(PeakBlocksTest, OfEqualPeaksTheLatestCounts) {
  Add({Taken(1, 100)}, "first");
  Add({GivenBack(1)}, "none");
  Add({Taken(2, 100)}, "second");
  ASSERT_EQ(Most()->blocks.size(), 1u);
  EXPECT_EQ(Most()->blocks[0].launched, "second");
}

TEST_F(PeakBlocksTest, OfSeveralGpusTheFullestCounts) {
  Add({Taken(1, 100), Taken(1, 300, false, 1)}, "fill");
  EXPECT_EQ(Most()->bytes, 300u);
}

TEST_F(PeakBlocksTest, SaysNothingOfBlocksThatItDoesNotKnow) {
  Add({Taken(1, 100)}, "fill");
  blocks_.Add(program_, {}, /*complete=*/false);
  EXPECT_FALSE(Most().has_value());
}

TEST_F(PeakBlocksTest, KnowsWhereBackwardPassesAre) {
  Add({Taken(1, 1)}, "forward");              // op 0
  Add({Taken(2, 1, true)}, "backward");       // 1
  Add({Taken(3, 1, true)}, "more backward");  // 2
  Add({Taken(4, 1)}, "update");               // 3
  EXPECT_FALSE(blocks_.HasBackward(0, 1));
  EXPECT_TRUE(blocks_.HasBackward(0, 2));
  EXPECT_TRUE(blocks_.HasBackward(2, 3));
  EXPECT_FALSE(blocks_.HasBackward(3, UINT64_MAX));
}

// The twin keeps what was held at every moment.
TEST_F(PeakBlocksTest, AgreesWithATwinThatKeepsEverything) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    graph::Program program(/*retain=*/true);
    PeakBlocks blocks;
    std::map<uint64_t, uint64_t> held, at_peak;  // bytes by address
    uint64_t bytes = 0, most = 0;
    for (int step = 0; step < 200; ++step) {
      std::vector<AllocatorBlock> changes;
      for (uint32_t i = random() % 4; i > 0; --i) {
        const uint64_t address = random() % 16;
        if (const auto found = held.find(address); found != held.end()) {
          changes.push_back(GivenBack(address));
          bytes -= found->second;
          held.erase(found);
          continue;
        }
        const uint64_t size = 1 + random() % 5;
        changes.push_back(Taken(address, size, random() % 2 == 0));
        bytes += held[address] = size;
        if (bytes < most)
          continue;
        most = bytes;
        at_peak = held;
      }
      blocks.Add(program, changes, true);
      program.Append(graph::Op{});
    }
    const auto peak = blocks.Most(program);
    ASSERT_TRUE(peak.has_value());
    EXPECT_EQ(peak->bytes, most);
    std::vector<uint64_t> sizes, expected;
    for (const auto& block : peak->blocks)
      sizes.push_back(block.bytes);
    for (const auto& [address, size] : at_peak)
      expected.push_back(size);
    std::sort(sizes.begin(), sizes.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(sizes, expected) << seed;
  }
}

}  // namespace
}  // namespace vrank::emulator
