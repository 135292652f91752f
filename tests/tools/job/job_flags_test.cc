#include "tools/job/job_flags.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/channel.h"

namespace vrank::tools {
namespace {

using testing::HasSubstr;

TEST(JobFlagsTest, ReadsAStragglerExactly) {
  const auto straggler = ParseStraggler("5=1.7", 8);
  ASSERT_TRUE(straggler.ok());
  EXPECT_EQ(straggler->first, 5);
  EXPECT_EQ(straggler->second.numerator, 17);
  EXPECT_EQ(straggler->second.denominator, 10);
  EXPECT_EQ(ParseStraggler("0=2", 1)->second.numerator, 2);
  EXPECT_EQ(ParseStraggler("0=1.50", 1)->second.denominator, 2);
}

TEST(JobFlagsTest, RefusesAStragglerThatMakesNoSense) {
  for (const char* text : {"5", "8=2", "-1=2", "0=", "0=0", "0=-1", "0=1.2345678",
                           "0=1e3", "0=x", "=2", "0=123456789"})
    EXPECT_FALSE(ParseStraggler(text, 8).ok()) << text;
}

TEST(JobFlagsTest, RefusesTwoFactorsForOneRank) {
  EXPECT_EQ(ParseStragglers({"0=2", "3=1.5"}, 4)->size(), 2u);
  EXPECT_THAT(ParseStragglers({"0=2", "0=3"}, 4).status().ToString(),
              HasSubstr("--straggler '0=3': rank 0 has a factor already"));
}

TEST(JobFlagsTest, NamesTheFlagOfABadRankList) {
  EXPECT_THAT(ParseRankFlag("--real", "4", 4).status().ToString(),
              HasSubstr("--real: rank list '4': rank 4 is not in a world of 4"));
  EXPECT_EQ(ParseRankFlag("--real", "0,2", 4)->ranks.size(), 2u);
}

TEST(JobFlagsTest, FindsAHostCostByItsName) {
  const auto cost = ParseHostCost("event_record=900");
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->first, static_cast<size_t>(HostCost::kEventRecord));
  EXPECT_EQ(cost->second, 900u);
  const auto unknown = ParseHostCost("lunch=900");
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("launch"));
  EXPECT_FALSE(ParseHostCost("launch").ok());
  EXPECT_FALSE(ParseHostCost("launch=1.5").ok());
}

TEST(JobFlagsTest, ReadsPercentages) {
  EXPECT_EQ(*ParsePercent("2%"), 0.02);
  EXPECT_EQ(*ParsePercent("0"), 0.0);
  EXPECT_FALSE(ParsePercent("101").ok());
  EXPECT_FALSE(ParsePercent("").ok());
  EXPECT_FALSE(ParsePercent("two").ok());
}

}  // namespace
}  // namespace vrank::tools
