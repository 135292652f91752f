#include "graph/replay/blocked_ranks.h"

#include <algorithm>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::StartsWith;

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

TEST(BlockedRanksTest, NamesWhatEachRankOfACircleWaitsFor) {
  EXPECT_EQ(DescribeCircle({{{0}, {1}, "a", {{"send #0", {1}}}},
                            {{1}, {0}, "b", {{"all_reduce #3", {0, 7}}}}}),
            "rank 0 waits for rank 1 (send #0), rank 1 for rank 0 (all_reduce #3)");
  // Of two, the shorter one; ranks that only wait for it are not in it.
  EXPECT_EQ(DescribeCircle({{{0}, {1}, "a"},
                            {{1}, {2, 3}, "b"},
                            {{2}, {3}, "c"},
                            {{3}, {1}, "d"},
                            {{4, 5}, {0, 1}, "e"}}),
            "rank 1 waits for rank 3, rank 3 for rank 1");
  EXPECT_EQ(DescribeCircle({{{0, 1}, {2}, "a"}, {{2}, {9}, "b"}}), "");
  EXPECT_EQ(DescribeCircle({}), "");
}

TEST(BlockedRanksTest, ShortensALongCircle) {
  std::vector<BlockedRanks> all(40);
  for (int32_t rank = 0; rank < 40; ++rank)
    all[static_cast<size_t>(rank)] = {{rank}, {(rank + 1) % 40}, std::to_string(rank)};
  const std::string text = DescribeCircle(all);
  EXPECT_THAT(text, StartsWith("rank 0 waits for rank 1, rank 1 for rank 2, "));
  EXPECT_THAT(text, EndsWith("rank 11 for rank 12, and so on by 28 more to rank 0"));
}

// Held against all paths of ranks: a circle is found exactly where there is one, each
// of its ranks waits for the next, and none through its row is shorter.
TEST(BlockedRanksTest, FindsACircleExactlyWhereThereIsOne) {
  std::mt19937 random(2);
  size_t found = 0;
  for (int round = 0; round < 500; ++round) {
    const size_t rows = 1 + random() % 8;
    std::vector<BlockedRanks> all(rows);
    std::vector<size_t> row_of;
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = 1 + random() % 2; i > 0; --i) {
        all[row].ranks.push_back(static_cast<int32_t>(row_of.size()));
        row_of.push_back(row);
      }
    for (size_t row = 0; row < rows; ++row)
      for (size_t i = random() % 3; i > 0; --i) {
        const size_t other = random() % (row_of.size() + 1);  // the last one has ended
        if (other == row_of.size() || row_of[other] != row)
          all[row].awaited.insert(static_cast<int32_t>(other));
      }
    // Steps between rows.
    std::vector<std::vector<size_t>> steps(rows, std::vector<size_t>(rows, 1000));
    for (size_t row = 0; row < rows; ++row)
      for (const int32_t rank : all[row].awaited)
        if (static_cast<size_t>(rank) < row_of.size())
          steps[row][row_of[static_cast<size_t>(rank)]] = 1;
    for (size_t by = 0; by < rows; ++by)
      for (size_t from = 0; from < rows; ++from)
        for (size_t to = 0; to < rows; ++to)
          steps[from][to] = std::min(steps[from][to], steps[from][by] + steps[by][to]);
    bool exists = false;
    for (size_t row = 0; row < rows; ++row)
      exists = exists || steps[row][row] < 1000;
    const std::string text = DescribeCircle(all);
    ASSERT_EQ(!text.empty(), exists) << round;
    if (!exists)
      continue;
    ++found;
    // "rank A waits for rank B, rank B for rank C, ..."
    std::vector<std::pair<size_t, size_t>> waits;
    std::smatch match;
    const std::regex wait("rank (\\d+) (?:waits )?for rank (\\d+)");
    for (std::string rest = text; std::regex_search(rest, match, wait);
         rest = match.suffix())
      waits.emplace_back(std::stoul(match[1]), std::stoul(match[2]));
    ASSERT_FALSE(waits.empty()) << text;
    size_t shortest = 1000;
    for (size_t i = 0; i < waits.size(); ++i) {
      const auto& [rank, other] = waits[i];
      EXPECT_EQ(other, waits[(i + 1) % waits.size()].first) << text;
      EXPECT_EQ(all[row_of[rank]].awaited.count(static_cast<int32_t>(other)), 1u)
          << text;
      shortest = std::min(shortest, steps[row_of[rank]][row_of[rank]]);
    }
    EXPECT_GE(waits.size(), shortest) << text;
    EXPECT_TRUE(std::any_of(waits.begin(), waits.end(), [&](const auto& each) {
      const size_t row = row_of[each.first];
      return steps[row][row] == waits.size();
    })) << text;
  }
  EXPECT_GT(found, 50u);
}

}  // namespace
}  // namespace vrank::graph
