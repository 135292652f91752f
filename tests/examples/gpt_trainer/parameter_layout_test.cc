#include "examples/gpt_trainer/parameter_layout.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace gpt {
namespace {

ModelShape Shape(int tp, int pp, int dp) {
  Arguments arguments;
  arguments.layers = 4;
  arguments.hidden = 64;
  arguments.heads = 8;
  arguments.sequence = 32;
  arguments.vocab = 256;
  arguments.tp = tp;
  arguments.pp = pp;
  arguments.dp = dp;
  return MakeModelShape(arguments, 0);
}

TEST(ParameterLayoutTest, BucketsCoverTheArrayAndDivide) {
  const ModelShape shape = Shape(2, 2, 3);
  for (int stage = 0; stage < 2; ++stage) {
    for (long long bytes : {1LL, 40'000LL, 1LL << 30}) {
      const ParameterLayout layout =
          MakeParameterLayout(shape, {1, 0, 2, stage}, bytes);
      long long end = 0;
      long long shard_end = 0;
      for (const Bucket& bucket : layout.buckets) {
        EXPECT_EQ(bucket.offset, end);
        EXPECT_EQ(bucket.shard_offset, shard_end);
        EXPECT_EQ(bucket.elements % (3 * kParameterAlignment), 0);
        end += bucket.elements;
        shard_end += bucket.elements / 3;
      }
      EXPECT_EQ(layout.elements, end);
      EXPECT_EQ(layout.shard_elements, shard_end);
    }
  }
}

TEST(ParameterLayoutTest, ParametersLieInBucketsOfTheirGroup) {
  const ParameterLayout layout =
      MakeParameterLayout(Shape(2, 1, 3), {0, 0, 0, 0}, 40'000);
  std::map<long long, const Parameter*> by_offset;
  for (const Parameter& parameter : layout.parameters) {
    const Bucket& bucket = layout.buckets[layout.BucketOf(parameter.offset)];
    EXPECT_EQ(bucket.group, parameter.group);
    EXPECT_LE(parameter.offset + parameter.elements(), bucket.offset + bucket.elements);
    EXPECT_EQ(parameter.offset % kParameterAlignment, 0);
    EXPECT_TRUE(by_offset.emplace(parameter.offset, &parameter).second);
  }
  long long end = 0;
  for (const auto& [offset, parameter] : by_offset) {
    EXPECT_GE(offset, end);
    end = offset + parameter->elements();
  }
}

// The reducer relies on it: completing fc2, fc1, projection, qkv of the last layer and
// so on walks down the array.
TEST(ParameterLayoutTest, BackwardCompletesFromTheEnd) {
  const ParameterLayout layout = MakeParameterLayout(Shape(1, 1, 2), {0, 0, 0, 0}, 1);
  long long last = layout.elements;
  for (size_t i = layout.layers.size(); i-- > 0;) {
    const LayerParameters& p = layout.layers[i];
    for (int parameter :
         {p.fc2_weight, p.fc1_weight, p.projection_weight, p.qkv_weight}) {
      EXPECT_LT(layout.parameters[parameter].offset, last);
      last = layout.parameters[parameter].offset;
    }
  }
  EXPECT_LT(layout.parameters[layout.word_embedding].offset, last);
}

// Over all ranks of a data-parallel column, every element of every tensor of the model
// exists: once, or on each tensor-parallel rank if replicated, and the word table on
// the first and the last stage.
TEST(ParameterLayoutTest, RanksHoldTheWholeModelBetweenThem) {
  const ParameterLayout whole = MakeParameterLayout(Shape(1, 1, 1), {0, 0, 0, 0}, 1);
  std::map<uint64_t, long long> expected;
  for (const Parameter& parameter : whole.parameters) {
    expected[parameter.tensor] = parameter.elements();
  }
  const ModelShape shape = Shape(2, 2, 1);
  std::map<uint64_t, std::set<long long>> seen;
  for (int rank = 0; rank < 4; ++rank) {
    const ParameterLayout part =
        MakeParameterLayout(shape, shape.CoordinatesOf(rank), 1);
    for (const Parameter& p : part.parameters) {
      for (long long i = 0; i < p.elements(); ++i) {
        seen[p.tensor].insert((p.first_row + i / p.columns) * p.full_columns +
                              p.first_column + i % p.columns);
      }
    }
  }
  ASSERT_EQ(seen.size(), expected.size());
  for (const auto& [tensor, elements] : expected) {
    EXPECT_EQ(static_cast<long long>(seen[tensor].size()), elements);
    EXPECT_EQ(*seen[tensor].rbegin(), elements - 1);
  }
}

}  // namespace
}  // namespace gpt
