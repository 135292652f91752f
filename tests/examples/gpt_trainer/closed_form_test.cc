#include "examples/gpt_trainer/closed_form.h"

#include <cmath>

#include <gtest/gtest.h>

#include "examples/gpt_trainer/caching_allocator.h"

namespace gpt {
namespace {

ModelShape Gpt3() {
  Arguments arguments;
  arguments.layers = 96;
  arguments.hidden = 12288;
  arguments.heads = 96;
  arguments.sequence = 2048;
  arguments.vocab = 51200;
  arguments.tp = 8;
  arguments.pp = 16;
  arguments.dp = 8;
  arguments.micro_batches = 64;
  return MakeModelShape(arguments, 1024);
}

TEST(ClosedFormTest, Gpt3HasItsParameters) {
  const ModelShape shape = Gpt3();
  double parameters = 0;
  for (int stage = 0; stage < shape.pp; ++stage) {
    parameters += 8.0 * static_cast<double>(RankParameters(shape, stage));
  }
  // 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), Narayanan et al. 2021,
  // section 5.1; ours counts replicated vectors on each rank and the word table twice.
  const double h = 12288;
  const double expected =
      12 * 96 * h * h * (1 + 13 / (12 * h) + (51200 + 2048) / (12 * 96 * h));
  EXPECT_NEAR(parameters / expected, 1.0, 0.01);
  EXPECT_NEAR(expected, 174.6e9, 0.1e9);
}

TEST(ClosedFormTest, Gpt3FitsInto80Gigabytes) {
  const ModelShape shape = Gpt3();
  for (int stage = 0; stage < shape.pp; ++stage) {
    const MemoryForm memory = PeakMemory(shape, stage, 160);
    EXPECT_LT(memory.total(), 70e9) << "stage " << stage;
  }
  // 32 sbh / tp bytes (plus statistics) per layer and micro-batch; 6 layers x 16.
  const double kept = 32.0 * 2048 * 12288 / 8;
  EXPECT_NEAR(PeakMemory(shape, 0, 160).activations / (96 * kept), 1.0, 0.01);
}

TEST(ClosedFormTest, ExecutedFlopsAreModelFlopsPlusRecomputation) {
  const ModelShape shape = Gpt3();
  double executed = 0;
  for (int stage = 0; stage < shape.pp; ++stage) {
    executed += 64 * ExecutedMatrixFlops(shape, stage);  // tp x dp ranks
  }
  // Scores again: 2 s^2 h per layer and sequence.
  const double sequences = 64 * 8;
  const double again = 2.0 * 2048 * 2048 * 12288 * 96 * sequences;
  EXPECT_NEAR(executed / (ModelFlops(shape) + again), 1.0, 1e-9);
}

TEST(ClosedFormTest, MemoryFallsWithTensorParallelism) {
  Arguments arguments;
  arguments.hidden = 1024;
  arguments.sequence = 1024;
  const double one = PeakMemory(MakeModelShape(arguments, 0), 0, 160).activations;
  arguments.tp = 4;
  const double four = PeakMemory(MakeModelShape(arguments, 0), 0, 160).activations;
  EXPECT_NEAR(four, one / 4, one * 0.02);
}

// Counted by hand for one rank of tp 2 x pp 2 x dp 2.
TEST(ClosedFormTest, TrafficOfASmallModel) {
  Arguments arguments;
  arguments.layers = 2;
  arguments.hidden = 64;
  arguments.heads = 4;
  arguments.sequence = 32;
  arguments.vocab = 256;
  arguments.micro_batches = 3;
  arguments.tp = arguments.pp = arguments.dp = 2;
  const ModelShape shape = MakeModelShape(arguments, 8);
  const double slice = 2.0 * 16 * 64;
  const Traffic first = NcclTraffic(arguments, shape, 0);
  EXPECT_EQ(first.send, 3 * slice);
  EXPECT_EQ(first.receive, 3 * slice);
  // Shards: replicated 2048 positions + 6 x 128 (64 padded), 2 biases of 128, table
  // 128 x 64, matrices 12 x 64 x 64 / 2; everything is a multiple of 256 here.
  const double shard = (2048 + 6 * 128 + 256 + 8192 + 24576) / 2;
  EXPECT_EQ(first.all_gather, 3 * 7 * slice + 2 * shard);
  EXPECT_EQ(first.reduce_scatter, 3 * 5 * slice + 4 * shard);
  EXPECT_EQ(first.all_reduce, 4 * (2048 + 6 * 128) + 4 * 8192 + 8);
}

TEST(CachingAllocatorTest, RoundsToPages) {
  EXPECT_EQ(CachingAllocator::RoundUp(0), 512u);
  EXPECT_EQ(CachingAllocator::RoundUp(513), 1024u);
  EXPECT_EQ(CachingAllocator::RoundUp(1 << 20), 1u << 20);
  EXPECT_EQ(CachingAllocator::RoundUp((1 << 20) + 1), 2u << 20);
}

}  // namespace
}  // namespace gpt
