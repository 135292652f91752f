// --group.

#include "graph/membership/group_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;

TEST(GroupHintTest, PrintsWhatItParses) {
  const Layout layout = *Layout::Parse("tp=2,dp=3,pp=4", 24);
  for (const char* text : {"world:2=tp-dp", "tp-dp:0=none", "init:3=pp",
                           "world:1=pp@0,3", "world:0=world"}) {
    const auto hint = ParseGroupHint(text, layout);
    ASSERT_TRUE(hint.ok()) << hint.status().ToString();
    EXPECT_EQ(hint->ToString(layout), text);
  }
  EXPECT_THAT(ParseGroupHint("world:1=pp@0,3", layout)->classes, ElementsAre(0, 3));
}

TEST(GroupHintTest, RefusesWhatIsNone) {
  const Layout layout = *Layout::Parse("tp=2,dp=3,pp=4", 24);
  for (const char* text : {"", "world", "world:1", "world:x=tp", "world:=tp", "cp:1=tp",
                           "world:1=ep", "world:1=pp@4", "world=1:tp"}) {
    EXPECT_FALSE(ParseGroupHint(text, layout).ok()) << text;
  }
}

}  // namespace
}  // namespace vrank::graph
