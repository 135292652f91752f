#include "tools/compare/rank_sum.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

// Over all ways to split the ranks 1..m+n: how often an interval that leaves out
// `count` differences at each end misses 0.
double ShareMissed(size_t m, size_t n, double confidence) {
  std::vector<int> is_first(m + n, 0);
  std::fill(is_first.begin() + static_cast<std::ptrdiff_t>(n), is_first.end(), 1);
  size_t missed = 0, all = 0;
  do {
    std::vector<double> a, b;
    for (size_t i = 0; i < is_first.size(); ++i)
      (is_first[i] != 0 ? a : b).push_back(static_cast<double>(i));
    const auto shift = FindShift(a, b, confidence);
    if (!shift)
      return -1;
    missed += shift->low > 0 || shift->high < 0;
    ++all;
  } while (std::next_permutation(is_first.begin(), is_first.end()));
  return static_cast<double>(missed) / static_cast<double>(all);
}

TEST(RankSumTest, TheIntervalMissesAsRarelyAsItSays) {
  for (const double confidence : {0.8, 0.9, 0.99})
    for (size_t m = 3; m <= 6; ++m)
      for (size_t n = 3; n <= 6; ++n) {
        const double missed = ShareMissed(m, n, confidence);
        if (missed < 0) {
          EXPECT_LT(std::min(m, n), LeastValues(confidence));
          continue;
        }
        EXPECT_LE(missed, 1 - confidence + 1e-12) << m << " " << n;
        EXPECT_GT(missed, 0) << m << " " << n;  // or the interval is wider than it must
      }
}

// For 8 and 8 values P(U <= 7) = 0.0035 and P(U <= 8) = 0.0052 (the critical value of
// the two-sided test at 0.01 is 7): the interval begins at the eighth difference.
TEST(RankSumTest, LeavesOutWhatTablesSay) {
  std::vector<double> a(8), b(8);
  for (size_t i = 0; i < 8; ++i) {
    a[i] = -static_cast<double>(i);
    b[i] = 8 * static_cast<double>(i);  // all 64 differences differ: 0 to 63
  }
  const auto shift = FindShift(a, b, 0.99);
  ASSERT_TRUE(shift);
  EXPECT_EQ(shift->low, 7);
  EXPECT_EQ(shift->high, 56);
  EXPECT_EQ(shift->estimate, 31.5);
}

TEST(RankSumTest, FiveOnEachSideAreNeeded) {
  EXPECT_EQ(LeastValues(0.99), 5u);
  const std::vector<double> four = {1, 2, 3, 4}, five = {1, 2, 3, 4, 5};
  EXPECT_FALSE(FindShift(four, four, 0.99));
  EXPECT_TRUE(FindShift(five, five, 0.99));
  EXPECT_FALSE(FindShift({}, five, 0.99));
}

TEST(RankSumTest, ManyValuesKeepTheirProbabilities) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> a(40), b(40);
  for (double& value : a)
    value = noise(random);
  for (double& value : b)
    value = 5 + noise(random);
  const auto shift = FindShift(a, b, 0.99);
  ASSERT_TRUE(shift);
  EXPECT_NEAR(shift->estimate, 5, 1);
  EXPECT_LT(shift->low, shift->estimate);
  EXPECT_GT(shift->high, shift->estimate);
}

}  // namespace
}  // namespace vrank::tools
