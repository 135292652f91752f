#include "emulator/watch/process_sample.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

class ProcessSampleTest : public testing::Test {
 protected:
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }
  template <typename Program>
  void Start(Program program) {
    child_ = fork();
    if (child_ == 0) {
      program();
      _exit(0);
    }
    ASSERT_GT(child_, 0);
  }

  pid_t child_ = -1;
};

TEST_F(ProcessSampleTest, OneThatWaitsSleeps) {
  Start([] {
    for (;;)
      pause();
  });
  std::optional<uint64_t> runs;
  while (!runs.has_value())
    runs = RunsOfSleepers(child_, ThreadsIn::kAnyWait);
  EXPECT_EQ(RunsOfSleepers(child_, ThreadsIn::kAnyWait), runs);
  EXPECT_FALSE(RunsOfSleepers(child_, ThreadsIn::kWaitsForThreads).has_value());
}

// The kernel calls it asleep while it collects a child (seen in 14 of 30,000 pairs of
// looks at `stat` alone, on two cores).
TEST_F(ProcessSampleTest, OneThatLooksWhetherToSleepDoesNot) {
  constexpr int kLooks = 60'000;
  Start([] {
    for (;;) {
      const pid_t its_own = vfork();
      if (its_own == 0)
        _exit(0);
      waitpid(its_own, nullptr, 0);
    }
  });
  int slept = 0;
  for (int look = 0; look < kLooks; ++look) {
    const auto runs = RunsOfSleepers(child_, ThreadsIn::kAnyWait);
    slept += runs.has_value() && RunsOfSleepers(child_, ThreadsIn::kAnyWait) == runs;
  }
  EXPECT_EQ(slept, 0);
}

}  // namespace
}  // namespace vrank::emulator
