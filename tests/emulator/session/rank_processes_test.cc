// Which ranks have come and gone, and what the session says where that is a fault.

#include "emulator/session/rank_processes.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulator/session/launcher_errors.h"
#include "emulator/session/lost_ranks.h"

namespace vrank::emulator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

LaunchOptions WithLauncher() {
  LaunchOptions launch;
  launch.launcher = "torchrun";
  return launch;
}

TEST(RankProcessesTest, TheExitOfALauncherIsThatOfEachRank) {
  RankProcesses alone({0, 3}, false), launched({0, 3}, true);
  alone.Exited(0, {.code = 2});
  launched.Exited(0, {.code = 2});
  EXPECT_TRUE(alone.has_exited(0));
  EXPECT_FALSE(alone.has_exited(3));
  EXPECT_TRUE(launched.has_exited(3));
  EXPECT_EQ(launched.exits().at(3).code, 2);
}

TEST(RankProcessesTest, ALauncherHasNotStartedRanksThatDidNotConnect) {
  RankProcesses alone({0, 3}, false), launched({0, 3}, true);
  EXPECT_THAT(alone.NotStarted(), IsEmpty());
  EXPECT_THAT(launched.NotStarted(), ElementsAre(0, 3));
  launched.Connected(0);
  EXPECT_THAT(launched.NotStarted(), ElementsAre(3));
}

TEST(LauncherErrorsTest, NamesTheRanksThatDidNotStart) {
  RankProcesses processes({0, 3}, true);
  EXPECT_THAT(
      DescribeNotStarted(WithLauncher(), processes, std::chrono::milliseconds(1500)),
      AllOf(HasSubstr("'torchrun' has not started any rank"), HasSubstr("1.5 s")));
  processes.Connected(0);
  EXPECT_THAT(
      DescribeNotStarted(WithLauncher(), processes, std::chrono::milliseconds(1500)),
      HasSubstr("has not started rank 3"));
  EXPECT_THAT(std::string(NeverConnectedError(WithLauncher(), processes, 3).message()),
              HasSubstr("rank 3 was not started"));
  EXPECT_THAT(std::string(NeverConnectedError(LaunchOptions(), processes, 3).message()),
              HasSubstr("rank 3 exited with 0 without loading vrank's libraries"));
}

TEST(LauncherErrorsTest, NamesARankThatIsNotReal) {
  const RankProcesses processes({0, 3}, true);
  GuestEvent event{};
  event.rank = 1;
  EXPECT_THAT(std::string(RefusedError(WithLauncher(), processes, event).message()),
              AllOf(HasSubstr("has started rank 1"), HasSubstr("real: 0,3")));
  event.rank = 3;
  event.pid = 77;
  EXPECT_THAT(std::string(RefusedError(WithLauncher(), processes, event).message()),
              HasSubstr("rank 3: process 77 was refused"));
}

TEST(LostRanksTest, AJobGoesOnWithoutARankWhileAnotherOneRuns) {
  RankProcesses processes({0, 1}, false);
  processes.Connected(0);
  processes.Connected(1);
  LostRanks lost(true, {}, &processes), never(false, {}, &processes);
  processes.Exited(1, {.code = 3});
  EXPECT_FALSE(never.Add(1));
  EXPECT_TRUE(lost.Add(1));
  EXPECT_TRUE(lost.Contains(1));
  EXPECT_EQ(lost.DescribeBefore(0), ", after rank 1 exited with 3");
  processes.Exited(0, {.code = 4});
  EXPECT_FALSE(lost.Add(0)) << "no rank is left";
  EXPECT_THAT(lost.ranks(), ElementsAre(1));
}

TEST(LostRanksTest, ALeaderAndARankThatNeverConnectedEndTheJob) {
  const std::vector<VirtualRank> followers = {
      {.rank = 2, .part = VirtualRank::Part::kFollower, .leader = 1}};
  RankProcesses processes({0, 1, 3}, false);
  processes.Connected(1);
  LostRanks lost(true, followers, &processes);
  processes.Exited(1, {.code = 3});
  processes.Exited(3, {.code = 3});
  EXPECT_FALSE(lost.Add(1));
  EXPECT_THAT(lost.DescribeBefore(1), HasSubstr("virtual ranks (2) follow it"));
  EXPECT_FALSE(lost.Add(3));
}

}  // namespace
}  // namespace vrank::emulator
