// Layouts: parsing, coordinates, groups.

#include "graph/membership/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LayoutTest, VariesTheFirstDimensionFastest) {
  const auto layout = Layout::Parse("tp=2,pp=4,dp=3", 24);
  ASSERT_TRUE(layout.ok()) << layout.status().ToString();
  EXPECT_EQ(layout->ToString(), "tp=2,dp=3,pp=4,order=tp-dp-pp");
  EXPECT_EQ(layout->Describe(23), "tp 1, dp 2, pp 3");
  EXPECT_EQ(layout->ClassOf(5), 0);
  EXPECT_EQ(layout->ClassOf(6), 1);
  EXPECT_EQ(layout->classes(), 4);
}

TEST(LayoutTest, FollowsTheStatedOrder) {
  const auto layout = Layout::Parse("tp=2,pp=4,dp=3,order=tp-pp-dp", 24);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->Describe(2), "tp 0, pp 1, dp 0");
}

TEST(LayoutTest, DropsDimensionsOfSizeOne) {
  const auto layout = Layout::Parse("tp=1,pp=1,dp=8", 8);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->dimensions().size(), 1u);
  EXPECT_EQ(layout->classes(), 1);
  EXPECT_TRUE(Layout::Parse("dp=1", 1).ok());
}

TEST(LayoutTest, TakesOtherNamesWithAnOrder) {
  EXPECT_FALSE(Layout::Parse("node=2,gpu=4", 8).ok());
  EXPECT_TRUE(Layout::Parse("node=2,gpu=4,order=gpu-node", 8).ok());
}

TEST(LayoutTest, MakesGroups) {
  const auto layout = Layout::Parse("tp=2,dp=3,pp=4", 24);
  ASSERT_TRUE(layout.ok());
  EXPECT_THAT(layout->Group(9, *layout->ParseSet("tp")), ElementsAre(8, 9));
  EXPECT_THAT(layout->Group(9, *layout->ParseSet("dp")), ElementsAre(7, 9, 11));
  EXPECT_THAT(layout->Group(9, *layout->ParseSet("pp")), ElementsAre(3, 9, 15, 21));
  EXPECT_THAT(layout->Group(9, *layout->ParseSet("tp-dp")),
              ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_THAT(layout->Group(9, *layout->ParseSet("none")), ElementsAre(9));
  EXPECT_EQ(layout->Group(9, *layout->ParseSet("world")).size(), 24u);
  EXPECT_EQ(layout->SetName(*layout->ParseSet("pp-tp")), "tp-pp");
}

TEST(LayoutTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"tp=2,dp=2", "world size is 8"},
      {"tp=16", "world size is 8"},
      {"tp", "not NAME=SIZE"},
      {"tp=x", "no size"},
      {"tp=0", "no size"},
      {"tp=2,tp=4", "twice"},
      {"tp=2,dp=4,order=tp", "missing"},
      {"tp=8,order=tp-dp", "names 'dp'"},
      {"", "not NAME=SIZE"},
      {"order=tp", "no dimension"},
      {"tp=2147483647,dp=2147483647", "world size is 8"}};
  for (const auto& [text, message] : cases) {
    const auto layout = Layout::Parse(text, 8);
    ASSERT_FALSE(layout.ok()) << text;
    EXPECT_THAT(layout.status().ToString(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace vrank::graph
