// Suggested real ranks tell all explanations of a split apart.

#include "graph/membership/real_rank_choice.h"

#include <iostream>
#include <set>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

TEST(RealRankChoiceTest, TakesOneRankPerStageOfTheDemo) {
  const Layout layout = *Layout::Parse("tp=8,pp=16,dp=8", 1024);
  const std::vector<int32_t> ranks = SuggestRealRanks(layout);
  ASSERT_EQ(ranks.size(), 16u);
  std::set<int32_t> stages;
  for (int32_t rank : ranks) {
    stages.insert(layout.ClassOf(rank));
  }
  EXPECT_EQ(stages.size(), 16u);
  EXPECT_EQ(Ambiguity(layout, ranks), 0);
  EXPECT_EQ(ranks, SuggestRealRanks(layout));
}

TEST(RealRankChoiceTest, FindsRanksForEveryLayout) {
  for (const char* text : {"tp=2,pp=2,dp=2", "tp=8", "dp=8", "pp=8", "tp=2,pp=4",
                           "tp=4,dp=4", "tp=2,cp=2,dp=2,pp=2", "tp=8,pp=4,dp=2"}) {
    int32_t world = 1;
    for (const char* c = text; *c != 0; ++c) {
      world *= *c >= '0' && *c <= '9' ? *c - '0' : 1;
    }
    const Layout layout = *Layout::Parse(text, world);
    const std::vector<int32_t> ranks = SuggestRealRanks(layout);
    std::cout << text << ": " << ::testing::PrintToString(ranks) << "\n";
    EXPECT_GE(static_cast<int32_t>(ranks.size()), layout.classes()) << text;
    EXPECT_LT(static_cast<int32_t>(ranks.size()), world + (layout.classes() == world))
        << text;
    EXPECT_EQ(Ambiguity(layout, ranks), 0) << text;
  }
}

TEST(RealRankChoiceTest, KnowsThatRankZeroTellsNothing) {
  const Layout layout = *Layout::Parse("tp=2,dp=4", 8);
  EXPECT_GT(Ambiguity(layout, {0}), 0);
}

}  // namespace
}  // namespace vrank::graph
