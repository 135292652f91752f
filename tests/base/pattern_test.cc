// Patterns of users: what matches, what is refused, and that none takes long.

#include "base/pattern.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

TEST(PatternTest, MatchesTheWholeText) {
  const Pattern step = *Pattern::Compile("step|train");
  EXPECT_TRUE(step.Matches("step"));
  EXPECT_TRUE(step.Matches("train"));
  EXPECT_FALSE(step.Matches("steps"));
  EXPECT_FALSE(step.Matches("a train"));
  EXPECT_FALSE(step.Matches("Step"));
  EXPECT_TRUE(Pattern::Compile("step", Pattern::Case::kIgnored)->Matches("STEP"));
  EXPECT_FALSE(Pattern().Matches(""));
}

TEST(PatternTest, TellsGroupsFromThoseThatTookNoPart) {
  const Pattern pattern = *Pattern::Compile("(a+)(b)?(c*)(d)");
  Pattern::Groups groups;
  ASSERT_TRUE(pattern.Matches("aad", 3, &groups));
  EXPECT_THAT(groups, ElementsAre(Optional(std::string_view("aa")), std::nullopt,
                                  Optional(std::string_view(""))));
  EXPECT_FALSE(pattern.Matches("aa", 3, &groups));
  EXPECT_TRUE(groups.empty());
}

// Names need not be UTF-8.
TEST(PatternTest, ADotIsAnyByte) {
  EXPECT_TRUE(
      Pattern::Compile("a.b")->Matches("a\xff"
                                       "b"));
  EXPECT_TRUE(Pattern::Compile("\u00e4.*")->Matches("\u00e4x"));
}

TEST(PatternTest, RefusesWhatCannotBeMatchedInLinearTime) {
  for (const char* text : {R"((a)\1)", "(?=a)b", "(?<!a)b", "(", "a**b{2000}", "[z-a]"})
    EXPECT_THAT(Pattern::Compile(text).status().ToString(),
                HasSubstr("the syntax is RE2's"))
        << text;
}

// Each of these overflows the stack of a backtracking matcher or takes it for ever.
TEST(PatternTest, NoTextIsTooLong) {
  const std::string name(1'000'000, 'k');
  for (const char* text : {"k.*", "(.*)*x", "(k|k)*x", "(k*)*x", "((k{1,10}){1,10})*x"})
    EXPECT_EQ(Pattern::Compile(text)->Matches(name), std::string(text) == "k.*")
        << text;
}

}  // namespace
}  // namespace vrank
