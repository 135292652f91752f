#include "virtual_nccl/core/debug_log.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>

#include "virtual_nccl/core/bus_id.h"
#include "virtual_nccl/core/error.h"

namespace vrank::nccl {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class DebugLogTest : public ::testing::Test {
 protected:
  ~DebugLogTest() override {
    unsetenv("NCCL_DEBUG");
    unsetenv("NCCL_DEBUG_FILE");
    ResetDebugLog();
    unlink(path().c_str());
  }
  std::string path() const {
    return ::testing::TempDir() + "nccl_debug." + std::to_string(getpid());
  }
  void Set(const char* level) {
    setenv("NCCL_DEBUG", level, 1);
    setenv("NCCL_DEBUG_FILE", (::testing::TempDir() + "nccl_debug.%p").c_str(), 1);
    ResetDebugLog();
  }
  std::string Written() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
};

TEST_F(DebugLogTest, IsSilentUnlessAsked) {
  unsetenv("NCCL_DEBUG");
  ResetDebugLog();
  EXPECT_EQ(CurrentDebugLevel(), DebugLevel::kNone);
  ::testing::internal::CaptureStdout();
  LogInfo(Subsystem::kInit, 0, "hello");
  LogWarning(std::source_location::current(), "hello");
  LogVersion(0);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(DebugLogTest, SaysThatAFileCannotBeWritten) {
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_FILE", "/dev/null/log", 1);
  ResetDebugLog();
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  LogInfo(Subsystem::kInit, 0, "hello");
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("hello"));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("NCCL_DEBUG_FILE: cannot write /dev/null/log (Not a directory)"));
}

TEST_F(DebugLogTest, WritesLinesAsNcclDoes) {
  Set("INFO");
  LogInfo(Subsystem::kInit, 3, "comm %d - Init COMPLETE", 7);
  EXPECT_THAT(
      Written(),
      ContainsRegex("^[^ :]+:[0-9]+:[0-9]+ .3. NCCL INFO comm 7 - Init COMPLETE\n$"));
}

TEST_F(DebugLogTest, WritesWarningsButNoInformationAtItsLevel) {
  Set("WARN");
  LogInfo(Subsystem::kInit, 0, "information");
  const int line = __LINE__ + 1;
  EXPECT_EQ(Fail(ncclInvalidArgument, "%s : wrong", "ncclTest"), ncclInvalidArgument);
  // From an empty line on: the line and the device of the thread that failed.
  EXPECT_THAT(Written(),
              ContainsRegex("^\n[^ :]+:[0-9]+:[0-9]+ .0. debug_log_test.cc:" +
                            std::to_string(line) + " NCCL WARN ncclTest : wrong\n$"));
  EXPECT_THAT(Written(), Not(HasSubstr("information")));
}

TEST(BusIdTest, IsTheNumberThatNcclPrints) {
  EXPECT_EQ(ParseBusId("0000:1b:00.0"), 0x1b000u);
  EXPECT_EQ(ParseBusId("0001:C3:1f.7"), 0x1c31f7u);
}

TEST_F(DebugLogTest, ShowsTheSubsystemsThatAreAskedFor) {
  struct {
    const char* asked;
    bool init, coll;
  } cases[] = {{nullptr, true, false},    {"COLL", false, true},
               {"init,coll", true, true}, {"^COLL", true, false},
               {"GRAPH", false, false},   {"ALL", true, true}};
  for (const auto& each : cases) {
    if (each.asked != nullptr)
      setenv("NCCL_DEBUG_SUBSYS", each.asked, 1);
    Set("INFO");
    EXPECT_EQ(IsLogged(Subsystem::kInit), each.init) << each.asked;
    EXPECT_EQ(IsLogged(Subsystem::kColl), each.coll) << each.asked;
    unsetenv("NCCL_DEBUG_SUBSYS");
  }
}

TEST_F(DebugLogTest, WritesTheVersionOnce) {
  setenv("NCCL_DEBUG", "VERSION", 1);
  ResetDebugLog();
  ::testing::internal::CaptureStdout();
  LogVersion(1);
  LogVersion(0);
  LogVersion(0);
  fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              ContainsRegex("^NCCL version 2.28.9.cuda[0-9]+.[0-9]+\n$"));
}

TEST(ErrorTest, KeepsTheNewestFailureOfTheThreadAndOfTheProcess) {
  Fail(ncclInvalidUsage, "mine");
  std::string other;
  std::thread([&] {
    other = LastError();
    Fail(ncclInvalidUsage, "yours");
  }).join();
  EXPECT_EQ(other, "mine");
  EXPECT_STREQ(LastError(), "mine");
  std::thread([&] { other = LastError(); }).join();
  EXPECT_EQ(other, "yours");
}

}  // namespace
}  // namespace vrank::nccl
