#include "virtual_gpu/core/value_policy.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

TEST(ValuePolicyTest, AStarStandsForAnyText) {
  EXPECT_TRUE(MatchesPattern("void f<char*[2]>(int)", "*char*[2]*"));
  EXPECT_TRUE(MatchesPattern("aXbXbc", "a*bc"));
  EXPECT_TRUE(MatchesPattern("", "**"));
  EXPECT_FALSE(MatchesPattern("abc", "ab"));
  EXPECT_FALSE(MatchesPattern("abc", "*b"));
  EXPECT_FALSE(MatchesPattern("", "a"));
}

TEST(ValuePolicyTest, TheFirstRuleThatFitsHolds) {
  const ValuePolicy policy = MakeValuePolicy("00002040 f(*\nzz g\n07\n01 *g*\n02 *");
  std::vector<unsigned char> bytes(6);
  ASSERT_TRUE(policy("_Z1fi", bytes.data(), bytes.size()));  // f(int)
  EXPECT_THAT(bytes, ::testing::ElementsAre(0, 0, 0x20, 0x40, 0, 0));
  ASSERT_TRUE(policy("a_g", bytes.data(), 2));  // no C++ name
  EXPECT_THAT(bytes, ::testing::ElementsAre(1, 1, 0x20, 0x40, 0, 0));
  ASSERT_TRUE(policy("h", bytes.data(), 1));
  EXPECT_EQ(bytes[0], 2);
  EXPECT_FALSE(MakeValuePolicy("01 g\n")("h", bytes.data(), 1));
}

}  // namespace
}  // namespace vrank::gpu
