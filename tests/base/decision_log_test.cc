// Which modules a text of VRANK_LOG asks for, and where lines go.

#include "base/decision_log.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank {
namespace {

using testing::HasSubstr;

int LevelIn(const char* text, LogModule module) {
  std::string_view bad;
  const auto levels = ParseLogLevels(text, &bad);
  return levels.has_value() ? (*levels)[static_cast<size_t>(module)] : -1;
}

TEST(LogLevelsTest, AModuleHasTheLevelThatIsStatedLast) {
  EXPECT_EQ(LevelIn("", LogModule::schedule), 0);
  EXPECT_EQ(LevelIn("pricing", LogModule::pricing), 1);
  EXPECT_EQ(LevelIn("pricing", LogModule::schedule), 0);
  EXPECT_EQ(LevelIn("store:2,pricing:1", LogModule::store), 2);
  EXPECT_EQ(LevelIn("all:2,store:0", LogModule::store), 0);
  EXPECT_EQ(LevelIn("all:2,store:0", LogModule::launch), 2);
}

TEST(LogLevelsTest, NamesThePartThatIsNoModule) {
  for (const char* part : {"pricin", "pricing:3", "pricing:", "pricing:-1",
                           "pricing:12", ":1", "all:x", " pricing"}) {
    std::string_view bad;
    const std::string text = std::string("launch:1,") + part + ",store";
    EXPECT_FALSE(ParseLogLevels(text, &bad).has_value()) << part;
    EXPECT_EQ(bad, part);
  }
}

TEST(DecisionLogTest, RefusesOtherModulesWithTheList) {
  setenv("VRANK_LOG", "prices", 1);
  const absl::Status status = StartDecisionLog();
  unsetenv("VRANK_LOG");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'prices'"));
  for (const LogModuleRow& row : kLogModules)
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(row.name)));
}

TEST(DecisionLogTest, EvaluatesNothingUnlessLogged) {
  int evaluated = 0;
  LOG_DECISION(store, 1, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);

  FILE* const file = tmpfile();
  ASSERT_NE(file, nullptr);
  SendDecisionsTo(LogModule::store, file);
  LOG_DECISION(store, 1, "number {}", ++evaluated);
  LOG_DECISION(store, 2, "number {}", ++evaluated);
  LOG_DECISION(launch, 1, "number {}", ++evaluated);
  SendDecisionsTo(LogModule::store, nullptr);
  EXPECT_EQ(evaluated, 1);
  rewind(file);
  char line[64] = "";
  EXPECT_NE(fgets(line, sizeof line, file), nullptr);
  EXPECT_STREQ(line, "number 1\n");
  EXPECT_EQ(fgets(line, sizeof line, file), nullptr);
  fclose(file);
}

}  // namespace
}  // namespace vrank
