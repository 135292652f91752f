#include "base/varint_sequence.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace vrank {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(VarintSequenceTest, GivesBackWhatWasAppended) {
  const std::vector<uint64_t> numbers = {0,     1,     127,       128,
                                         16383, 16384, kMost / 2, kMost};
  VarintSequence sequence;
  for (const uint64_t number : numbers)
    sequence.Append(number);
  EXPECT_EQ(sequence.bytes(), 1u + 1 + 1 + 2 + 2 + 3 + 9 + 10);
  VarintSequence::Reader reader(sequence);
  for (const uint64_t number : numbers)
    EXPECT_EQ(reader.Next(), number);
  EXPECT_TRUE(reader.AtEnd());
  sequence.Clear();
  EXPECT_TRUE(VarintSequence::Reader(sequence).AtEnd());
}

TEST(VarintSequenceTest, SmallDifferencesAreSmallNumbers) {
  EXPECT_EQ(ZigZag(7, 7), 0u);
  EXPECT_EQ(ZigZag(6, 7), 1u);
  EXPECT_EQ(ZigZag(8, 7), 2u);
  for (const uint64_t before : {uint64_t{0}, uint64_t{7}, kMost / 2, kMost})
    for (const uint64_t now : {uint64_t{0}, uint64_t{7}, kMost / 2, kMost})
      EXPECT_EQ(FromZigZag(ZigZag(now, before), before), now);
}

}  // namespace
}  // namespace vrank
