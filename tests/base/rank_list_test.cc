// Lists of ranks as people write them.

#include "base/rank_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankListTest, ParsesRanksAndRanges) {
  const auto list = ParseRankList("512,0,3-7,5", 1024);
  ASSERT_TRUE(list.ok());
  EXPECT_FALSE(list->each);
  EXPECT_THAT(list->ranks, ElementsAre(0, 3, 4, 5, 6, 7, 512));
}

TEST(RankListTest, ParsesEach) {
  const auto list = ParseRankList("each", 3);
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->each);
  EXPECT_THAT(list->ranks, ElementsAre(0, 1, 2));
}

TEST(RankListTest, RefusesWhatIsNoList) {
  for (const char* text :
       {"", ",", "1,", "a", "1-", "-1", "3-1", "1--2", "1 2", "0x1", "99999999999"}) {
    const auto list = ParseRankList(text, 1024);
    EXPECT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.status().ToString(), HasSubstr(text));
  }
}

TEST(RankListTest, RefusesRanksOutsideTheWorld) {
  const auto list = ParseRankList("0,8", 8);
  EXPECT_EQ(list.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(list.status().ToString(), HasSubstr("(0-7)"));
  EXPECT_FALSE(ParseRankList("0-2147483647", 8).ok());
}

TEST(RankListTest, PrintsWhatItParses) {
  for (const char* text : {"0", "0,1", "0-2", "0,3-7,512", "0,2,4", "1-3,5,6,8-10"}) {
    EXPECT_EQ(FormatRanks(ParseRankList(text, 1024)->ranks), text);
  }
  EXPECT_EQ(FormatRanks({}), "");
}

}  // namespace
}  // namespace vrank
