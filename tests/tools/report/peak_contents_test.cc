#include "tools/report/peak_contents.h"

#include <vector>

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using protocol::AllocatorBlock;
using protocol::BlockChange;
using Part = PeakContents::Part;

// Parameters of 1,000 bytes; then iterations, each with two micro batches whose forward
// pass takes 100 and whose backward pass takes 10, and an update that takes 1 and keeps
// it in the first one.
class PeakContentsTest : public testing::Test {
 protected:
  void Run(size_t iterations) {
    Take(1'000, BlockChange::kTaken, "fill");
    for (size_t i = 0; i < iterations; ++i) {
      graph::IterationBounds& bounds = iterations_.emplace_back();
      bounds.first_op = program_.size();
      std::vector<uint64_t> taken;
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        taken.push_back(Take(100, BlockChange::kTaken, "forward"));
        taken.push_back(Take(10, BlockChange::kTakenInBackward, "backward"));
      }
      const uint64_t state = Take(1, BlockChange::kTaken, "update");
      if (i != 0)
        taken.push_back(state);
      bounds.last_op = program_.size() - 1;
      for (const uint64_t address : taken)
        GiveBack(address);
    }
  }
  PeakContents Contents() const {
    return ContentsOfPeak(blocks_, program_, iterations_).value();
  }
  static void ExpectRow(const PeakContents::Row& row, Part part, bool kept,
                        size_t blocks, uint64_t bytes) {
    EXPECT_EQ(row.part, part);
    EXPECT_EQ(row.kept, kept);
    EXPECT_EQ(row.amount.blocks, blocks);
    EXPECT_EQ(row.amount.bytes, bytes);
  }

  uint64_t Take(uint64_t bytes, BlockChange change, const char* kernel) {
    const AllocatorBlock block{++address_, bytes, change, 0};
    blocks_.Add(program_, {&block, 1}, true);
    program_.Append(
        graph::Op{.kind = graph::OpKind::kWork, .a = program_.AddName(kernel)});
    return address_;
  }
  void GiveBack(uint64_t address) {
    const AllocatorBlock block{address, 0, BlockChange::kGivenBack, 0};
    blocks_.Add(program_, {&block, 1}, true);
  }

  graph::Program program_{/*retain=*/true};
  emulator::PeakBlocks blocks_;
  std::vector<graph::IterationBounds> iterations_;
  uint64_t address_ = 0;
};

TEST_F(PeakContentsTest, TellsThePartsOfAnIterationApart) {
  Run(3);
  const PeakContents contents = Contents();
  EXPECT_EQ(contents.iteration, 2u);
  EXPECT_EQ(contents.all.bytes, 1'222u);
  ASSERT_EQ(contents.rows.size(), 5u);
  ExpectRow(contents.rows[0], Part::kBefore, false, 1, 1'000);
  ExpectRow(contents.rows[1], Part::kForward, false, 2, 200);
  ExpectRow(contents.rows[2], Part::kBackward, false, 2, 20);
  ExpectRow(contents.rows[3], Part::kUpdate, false, 1, 1);
  ExpectRow(contents.rows[4], Part::kUpdate, true, 1, 1);
  ASSERT_EQ(contents.rows[1].launches.size(), 1u);
  EXPECT_EQ(contents.rows[1].launches[0].name, "forward");
  EXPECT_EQ(contents.rows[1].launches[0].amount.bytes, 200u);
}

TEST_F(PeakContentsTest, TellsBackwardPassesApartWithoutIterations) {
  Run(1);
  iterations_.clear();
  const PeakContents contents = Contents();
  EXPECT_FALSE(contents.iteration.has_value());
  ASSERT_EQ(contents.rows.size(), 2u);
  ExpectRow(contents.rows[0], Part::kBefore, false, 4, 1'201);
  ExpectRow(contents.rows[1], Part::kBackward, false, 2, 20);
}

TEST_F(PeakContentsTest, WithoutABackwardPassAllIsForward) {
  iterations_ = {{0, 0}, {1, 1}};
  Take(5, BlockChange::kTaken, "first");
  Take(7, BlockChange::kTaken, "second");
  const PeakContents contents = Contents();
  ASSERT_EQ(contents.rows.size(), 2u);
  ExpectRow(contents.rows[0], Part::kForward, false, 1, 7);
  ExpectRow(contents.rows[1], Part::kForward, true, 1, 5);
}

}  // namespace
}  // namespace vrank::tools
