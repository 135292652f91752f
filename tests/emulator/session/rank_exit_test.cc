#include "emulator/session/rank_exit.h"

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

LaunchOptions Program() {
  LaunchOptions launch;
  launch.command = {"./train", "--tp", "8"};
  return launch;
}

TEST(RankExitTest, SaysHowItEnded) {
  EXPECT_EQ(DescribeExit({.code = 0}), "exited with 0");
  EXPECT_EQ(DescribeExit({.code = 3}), "exited with 3");
  EXPECT_EQ(DescribeExit({.signal = SIGSEGV}),
            "was killed by SIGSEGV (Segmentation fault)");
}

TEST(RankExitTest, ExplainsAShellsWords) {
  EXPECT_THAT(DescribeExit({.code = 126}), HasSubstr("cannot be executed"));
  EXPECT_THAT(DescribeExit({.code = 127}), HasSubstr("is not there"));
  EXPECT_THAT(DescribeExit({.code = 128 + SIGABRT}), HasSubstr("SIGABRT (Aborted)"));
  EXPECT_EQ(DescribeExit({.code = 128}), "exited with 128");
  EXPECT_EQ(DescribeExit({.code = 255}), "exited with 255");
}

TEST(RankExitTest, PointsAtWhatTheRankWrote) {
  LaunchOptions launch = Program();
  EXPECT_THAT(AfterExit(launch, 3, {.code = 1}), HasSubstr("above"));
  launch.log_folder = "logs";
  EXPECT_THAT(AfterExit(launch, 3, {.code = 1}),
              AllOf(HasSubstr("logs/rank3.err"), Not(HasSubstr("above"))));
}

TEST(RankExitTest, NamesWhatAMachineWithFewerGpusNeeds) {
  const auto fewer_gpus = HasSubstr("has to be told of 1 (docs/limitations.md");
  LaunchOptions launch = Program();
  launch.real_gpu = true;
  launch.real_gpus = 1;
  launch.ranks_of_node = 8;
  EXPECT_THAT(AfterExit(launch, 0, {.code = 1}), fewer_gpus);
  EXPECT_THAT(AfterExit(launch, 0, {.signal = SIGSEGV}), Not(fewer_gpus));
  launch.ranks_of_node = 1;
  EXPECT_THAT(AfterExit(launch, 0, {.code = 1}), Not(fewer_gpus));
}

TEST(RankExitTest, OffersADebuggerAfterACrashAlone) {
  const auto with_debugger =
      HasSubstr("-- gdb -batch -ex run -ex backtrace --args ./train");
  EXPECT_THAT(AfterExit(Program(), 3, {.signal = SIGSEGV}), with_debugger);
  EXPECT_THAT(AfterExit(Program(), 3, {.code = 128 + SIGSEGV}), with_debugger);
  EXPECT_THAT(AfterExit(Program(), 3, {.code = 1}), Not(with_debugger));
  EXPECT_THAT(AfterExit(Program(), 3, {.signal = SIGKILL}),
              AllOf(HasSubstr("memory runs out"), Not(with_debugger)));
}

TEST(RankExitTest, NamesTheLauncherWhereItStartedTheRanks) {
  LaunchOptions launch = Program();
  EXPECT_EQ(WhoEnded(launch, 3), "rank 3");
  launch.launcher = "torchrun";
  EXPECT_EQ(WhoEnded(launch, 3), "the launcher 'torchrun'");
  EXPECT_THAT(AfterExit(launch, 3, {.signal = SIGSEGV}), Not(HasSubstr("gdb")));
}

}  // namespace
}  // namespace vrank::emulator
