#include "tools/job/deciding_ranks.h"

#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/interruption.h"
#include "graph/membership/deciding_rank.h"

namespace vrank::tools {
namespace {

using Ranks = std::vector<int32_t>;
using testing::ElementsAre;

absl::Status Open(int32_t deciding) {
  absl::Status status = absl::FailedPreconditionError("who belongs to it is open");
  graph::AttachDecidingRank(deciding, &status);
  return status;
}

TEST(DecidingRanksTest, AddsRanksUntilNothingIsOpen) {
  Ranks real = {4};
  std::vector<Ranks> tried;
  const absl::Status status =
      RunWithDecidingRanks(&real, [&](const Ranks& ranks) -> absl::Status {
        tried.push_back(ranks);
        if (ranks.size() == 3)
          return absl::OkStatus();
        return Open(ranks.size() == 1 ? 7 : 2);
      });
  EXPECT_TRUE(status.ok());
  EXPECT_THAT(tried, ElementsAre(Ranks{4}, Ranks{4, 7}, Ranks{2, 4, 7}));
  EXPECT_EQ(real, (Ranks{2, 4, 7}));
}

TEST(DecidingRanksTest, ReturnsOtherErrorsAtOnce) {
  Ranks real = {0};
  int tries = 0;
  const absl::Status status = RunWithDecidingRanks(&real, [&](const Ranks&) {
    ++tries;
    return absl::AbortedError("rank 0 exited with 3");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(real, Ranks{0});
}

// The attempt ends by an error of its own in the moment in which the signal arrives.
TEST(DecidingRanksDeathTest, StartsNoAttemptAfterASignal) {
  const auto run = [] {
    Ranks real = {0};
    int tries = 0;
    const absl::Status status = RunWithDecidingRanks(&real, [&](const Ranks&) {
      ++tries;
      NoteInterruption(SIGTERM);
      return Open(1);
    });
    exit(tries == 1 && !status.ok() ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST(DecidingRanksTest, EndsWhereARankDoesNotHelp) {
  Ranks real = {0};
  int tries = 0;
  // Real already, and still open.
  EXPECT_FALSE(RunWithDecidingRanks(&real, [&](const Ranks&) {
                 ++tries;
                 return Open(0);
               }).ok());
  EXPECT_EQ(tries, 1);
  // A new one each time.
  EXPECT_FALSE(RunWithDecidingRanks(&real, [&](const Ranks& ranks) {
                 return Open(static_cast<int32_t>(ranks.size()));
               }).ok());
  EXPECT_EQ(real.size(), 1 + graph::kMostDecidingRanks);
}

TEST(DecidingRanksTest, SaysThatItStartsAgainUnlessQuiet) {
  for (const bool quiet : {false, true}) {
    Ranks real = {4};
    testing::internal::CaptureStderr();
    const absl::Status status = RunWithDecidingRanks(
        &real,
        [&](const Ranks& ranks) {
          return ranks.size() == 2 ? absl::OkStatus() : Open(7);
        },
        quiet);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(said.empty(), quiet) << said;
  }
}

}  // namespace
}  // namespace vrank::tools
