#include "examples/gpt_trainer/kernels/positions.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "examples/gpt_trainer/model_shape.h"

namespace gpt {
namespace {

ModelShape Shape(int cp) {
  Arguments arguments;
  arguments.sequence = 48;
  arguments.cp = cp;
  arguments.attention = AttentionKind::kFused;
  return MakeModelShape(arguments, 0);
}

TEST(PositionsTest, RanksHoldAllPositionsBetweenThem) {
  for (int cp : {1, 2, 3, 4}) {
    const ModelShape shape = Shape(cp);
    std::vector<int> seen;
    for (int rank = 0; rank < cp; ++rank) {
      for (int i = 0; i < shape.local_sequence(); ++i) {
        seen.push_back(shape.PositionsOf(rank).at(i));
      }
    }
    std::sort(seen.begin(), seen.end());
    for (int i = 0; i < 48; ++i) {
      EXPECT_EQ(seen[i], i) << "cp " << cp;
    }
  }
}

TEST(PositionsTest, CountsThoseUpToAPosition) {
  const ModelShape shape = Shape(3);
  for (int rank = 0; rank < 3; ++rank) {
    const Positions positions = shape.PositionsOf(rank);
    for (int position = -1; position < 48; ++position) {
      int expected = 0;
      for (int i = 0; i < shape.local_sequence(); ++i) {
        expected += positions.at(i) <= position ? 1 : 0;
      }
      EXPECT_EQ(positions.UpTo(position), expected);
    }
  }
}

// What the costs in kernels.textproto rest on.
TEST(PositionsTest, EveryPairOfRanksSeesTheSameNumberOfPositions) {
  const ModelShape shape = Shape(4);
  const int local = shape.local_sequence();
  for (int rank = 0; rank < 4; ++rank) {
    for (int other = 0; other < 4; ++other) {
      int pairs = 0;
      for (int i = 0; i < local; ++i) {
        pairs += shape.PositionsOf(other).UpTo(shape.PositionsOf(rank).at(i));
      }
      EXPECT_EQ(pairs, rank == other ? local * (local + 1) / 2 : local * local / 2);
    }
  }
}

}  // namespace
}  // namespace gpt
