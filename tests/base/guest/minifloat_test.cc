#include "base/guest/minifloat.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace vrank {
namespace {

template <typename Format>
void ExpectEveryPatternSurvives(uint32_t bits) {
  for (uint32_t pattern = 0; pattern < (1u << bits); ++pattern) {
    const float value = Format::Decode(pattern);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Format::Decode(Format::Encode(value)))) << pattern;
      continue;
    }
    // An 8-bit infinity saturates on the way back.
    if (std::isinf(value) && bits == 8)
      continue;
    EXPECT_EQ(Format::Encode(value), pattern) << value;
  }
}

TEST(MinifloatTest, KeepsEveryRepresentableValue) {
  ExpectEveryPatternSurvives<Float16>(16);
  ExpectEveryPatternSurvives<Bfloat16>(16);
  ExpectEveryPatternSurvives<Float8E4M3>(8);
  ExpectEveryPatternSurvives<Float8E5M2>(8);
}

TEST(MinifloatTest, RoundsToTheNearestEven) {
  // Between 1 and 1 + 2^-7 of bfloat16: the tie goes to the even 1.
  EXPECT_EQ(Bfloat16::Encode(1.0f + 0.00390625f), 0x3f80u);
  EXPECT_EQ(Bfloat16::Encode(1.0f + 3 * 0.00390625f), 0x3f82u);
  EXPECT_EQ(Float16::Encode(1.0f + 0.00048828125f), 0x3c00u);
  // Halfway to the smallest subnormal of float16, 2^-24: zero is even.
  EXPECT_EQ(Float16::Encode(std::ldexp(1.0f, -25)), 0u);
  EXPECT_EQ(Float16::Encode(std::ldexp(1.5f, -25)), 1u);
  // The largest subnormal rounds up into the smallest normal number.
  EXPECT_EQ(Float16::Encode(std::ldexp(1.0f, -14) - std::ldexp(1.0f, -30)), 0x0400u);
}

TEST(MinifloatTest, OverflowsAsTheDeviceDoes) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Float16::Encode(65504.0f), 0x7bffu);
  EXPECT_EQ(Float16::Encode(65520.0f), 0x7c00u);
  EXPECT_EQ(Float16::Encode(-infinity), 0xfc00u);
  EXPECT_EQ(Float8E4M3::Decode(0x7e), 448.0f);
  EXPECT_EQ(Float8E4M3::Encode(1000.0f), 0x7eu);
  EXPECT_EQ(Float8E4M3::Encode(-infinity), 0xfeu);
  EXPECT_EQ(Float8E5M2::Decode(0x7b), 57344.0f);
  EXPECT_EQ(Float8E5M2::Encode(infinity), 0x7bu);
}

}  // namespace
}  // namespace vrank
