#include "graph/replay/blocked_ranks.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::ElementsAre;

TEST(BlockedRanksTest, BeginsWithWhoWaitsForNobodyElse) {
  const std::vector<BlockedRanks> all = {
      {{0, 1}, {2}, "a"}, {{2}, {3, 4}, "b"}, {{3}, {9}, "c"}, {{4}, {3}, "d"}};
  EXPECT_THAT(LinesFromTheCauseOn(all, 9), ElementsAre("c", "d", "b", "a"));
}

TEST(BlockedRanksTest, KeepsACircleTogether) {
  const std::vector<BlockedRanks> all = {
      {{0}, {3}, "a"}, {{1}, {2}, "b"}, {{2}, {3}, "c"}, {{3}, {1}, "d"}};
  EXPECT_THAT(LinesFromTheCauseOn(all, 9), ElementsAre("d", "b", "c", "a"));
}

TEST(BlockedRanksTest, CountsWhatItLeavesOut) {
  const std::vector<BlockedRanks> all = {
      {{0}, {9}, "a"}, {{1, 2}, {0}, "b"}, {{3, 4}, {1}, "c"}};
  EXPECT_THAT(LinesFromTheCauseOn(all, 1),
              ElementsAre("a", "4 more ranks in 2 more such waits"));
  EXPECT_THAT(LinesFromTheCauseOn(all, 2),
              ElementsAre("a", "b", "2 more ranks in 1 more such wait"));
  EXPECT_THAT(LinesFromTheCauseOn(all, 3), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(LinesFromTheCauseOn({}, 3).empty());
}

// Whatever waits for whom: every row once; and a row comes behind one that it waits for
// unless that one waits for it, too, by whatever way.
TEST(BlockedRanksTest, PutsEveryRowBehindWhatItWaitsFor) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t size = 1 + random() % 12;
    std::vector<BlockedRanks> all(size);
    std::vector<std::vector<bool>> reaches(size, std::vector<bool>(size));
    for (size_t row = 0; row < size; ++row) {
      all[row].ranks = {static_cast<int32_t>(row)};
      all[row].text = std::to_string(row);
      for (size_t i = random() % 3; i > 0; --i) {
        const size_t other = random() % (size + 1);  // the last one has ended
        all[row].awaited.insert(static_cast<int32_t>(other));
        if (other < size)
          reaches[row][other] = true;
      }
    }
    for (size_t by = 0; by < size; ++by)
      for (size_t from = 0; from < size; ++from)
        for (size_t to = 0; to < size; ++to)
          reaches[from][to] =
              reaches[from][to] || (reaches[from][by] && reaches[by][to]);
    const std::vector<std::string> lines = LinesFromTheCauseOn(all, size);
    ASSERT_EQ(lines.size(), size);
    std::vector<size_t> place(size, size);
    for (size_t i = 0; i < size; ++i)
      place[std::stoul(lines[i])] = i;
    for (size_t from = 0; from < size; ++from)
      for (size_t to = 0; to < size; ++to)
        if (reaches[from][to] && !reaches[to][from]) {
          EXPECT_GT(place[from], place[to]) << round;
        }
  }
}

}  // namespace
}  // namespace vrank::graph
