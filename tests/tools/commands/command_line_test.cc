#include "tools/commands/command_line.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/emulate_command.h"
#include "tools/commands/validate_command.h"
#include "tools/job/job_flags.h"

namespace vrank::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(CommandLineTest, LeavesTheProgramsArgumentsAlone) {
  const CommandLine line = SplitAtDashes({"--real", "0", "--", "prog", "--help", "--"});
  EXPECT_THAT(line.flags, ElementsAre("--real", "0"));
  EXPECT_THAT(line.program, ElementsAre("prog", "--help", "--"));
}

TEST(CommandLineTest, RefusesUnknownFlagsAndSurplusArguments) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--world-size", "2", "--real", "0", "--colour"},
        std::vector<std::string>{"--world-size", "2", "--real", "0", "surplus"},
        std::vector<std::string>{"--world-size", "two", "--real", "0"},
        std::vector<std::string>{"--world-size", "2"}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunEmulateCommand(CommandLine{flags, {"program"}}), kExitUsage);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("vrank emulate: "));
    EXPECT_THAT(said, HasSubstr("--help"));
  }
}

TEST(CommandLineTest, NamesTheFlagThatMayBeMeant) {
  const auto said_of = [](const char* flag) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunEmulateCommand(CommandLine{{"--real", "0", flag, "2"}, {"program"}}),
              kExitUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(said_of("--ranks"), HasSubstr("(is --world-size meant?)"));
  EXPECT_THAT(said_of("--gpus"), HasSubstr("(is --gpu meant?)"));
  EXPECT_THAT(said_of("--max-asumed"), HasSubstr("(is --max-assumed meant?)"));
  EXPECT_THAT(said_of("--entirely-else"), Not(HasSubstr("meant")));
}

// A program without a launcher is one rank, and nothing needs to be said.
TEST(CommandLineTest, AProgramWithoutALauncherIsOneRank) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"--real", "0"},
        std::vector<std::string>{"--world-size", "1"}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunEmulateCommand(CommandLine{flags, {"no_such_program"}}), 1);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no such program"));
  }
  // A command that starts the ranks itself has as many as it starts.
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunEmulateCommand(CommandLine{{"--launcher"}, {"program"}}), kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--world-size"));
}

TEST(CommandLineTest, RefusesEmptyValues) {
  for (const char* flag :
       {"--max-assumed", "--log-dir", "--record-payloads", "--layout", "--kernels"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(
        RunEmulateCommand(CommandLine{
            {"--world-size", "2", "--real", "0", "--json", flag, ""}, {"program"}}),
        kExitUsage);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr(std::string("vrank emulate: ") + flag +
                          ": its value is empty; give one or leave it out"));
  }
}

TEST(CommandLineTest, AsksForAProgram) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunValidateCommand(CommandLine{{"--ranks", "2", "--real", "0"}, {}}),
            kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("put it after --"));
}

TEST(CommandLineTest, ShowsThePageAsHelp) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunEmulateCommand(CommandLine{{"--help"}, {}}), kExitFine);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("--max-assumed"));
}

TEST(CommandLineTest, EveryFlagOfAJobIsOnThePages) {
  CLI::App app;
  JobFlags flags;
  AddJobFlags(&app, &flags);
  for (const char* page : {"emulate", "validate"})
    for (const CLI::Option* option : app.get_options())
      if (option->get_name() != "--help") {
        EXPECT_THAT(HelpPage(page), HasSubstr(option->get_name())) << page;
      }
}

}  // namespace
}  // namespace vrank::tools
