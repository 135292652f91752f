// A key that is an index in the group is the place that ordering the group gives.

#include "graph/membership/split_hypothesis.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

TEST(SplitHypothesisTest, AnIndexIsThePlaceInTheOrderedGroup) {
  std::mt19937 random(5);
  uint64_t checked = 0;
  for (const char* text : {"tp=2,pp=3,dp=2", "tp=4,dp=3,order=dp-tp", "pp=2,cp=2,dp=4",
                           "dp=12", "tp=2,cp=3,pp=2,order=pp-cp-tp"}) {
    const Layout layout = *Layout::ParseWorld(text);
    for (int variant = 0; variant < 3; ++variant) {
      std::vector<int32_t> ranks(static_cast<size_t>(layout.world_size()));
      std::iota(ranks.begin(), ranks.end(), 0);
      std::vector<bool> joins(ranks.size(), true);
      if (variant == 1)
        std::shuffle(ranks.begin(), ranks.end(), random);
      if (variant == 2)
        for (size_t i = 0; i < joins.size(); ++i)
          joins[i] = random() % 3 != 0;
      const ParentView parent(&layout, ranks, joins);
      for (DimensionSet set = 0; set <= layout.all(); ++set) {
        for (const KeyFormula& formula : KeyFormulas(layout, layout.all(), set)) {
          if (formula.value != KeyFormula::Value::kIndex)
            continue;
          for (const auto& group : parent.GroupingBy(set).groups) {
            const std::vector<uint32_t> ordered = OrderGroup(parent, formula, group);
            for (size_t place = 0; place < ordered.size(); ++place) {
              ASSERT_EQ(PredictKey(parent, set, formula, ordered[place]),
                        static_cast<int64_t>(place))
                  << text << ", variant " << variant << ", groups by "
                  << layout.SetName(set);
              ++checked;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 10'000u);
}

TEST(LayoutPlaceTest, IsThePlaceInTheGroup) {
  const Layout layout = *Layout::ParseWorld("tp=2,cp=3,dp=2,pp=2,order=pp-cp-tp-dp");
  for (DimensionSet set = 0; set <= layout.all(); ++set) {
    for (int32_t rank = 0; rank < layout.world_size(); ++rank) {
      const std::vector<int32_t> group = layout.Group(rank, set);
      EXPECT_EQ(group[static_cast<size_t>(layout.PlaceInGroup(rank, set))], rank);
    }
  }
}

}  // namespace
}  // namespace vrank::graph
