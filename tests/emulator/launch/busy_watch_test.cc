// A loop that does not take a signal is ended by it; one that does is left alone.

#include "emulator/launch/busy_watch.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include <gtest/gtest.h>

#include "base/interruption.h"

namespace vrank::emulator {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

int BlockedSignals() {
  EndOnInterruption("vrank emulate");
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

TEST(BusyWatchTest, ABusyLoopEndsByTheSignal) {
  EXPECT_EXIT(
      {
        const BusyWatch watch(BlockedSignals());
        kill(getpid(), SIGTERM);
        for (volatile int i = 0;; i = i + 1) {
        }
      },
      KilledBySignal(SIGTERM), "^vrank emulate: interrupted by SIGTERM");
}

TEST(BusyWatchTest, ALoopThatReadsTheSignalGoesOn) {
  EXPECT_EXIT(
      {
        const int signals = BlockedSignals();
        {
          const BusyWatch watch(signals);
          kill(getpid(), SIGTERM);
          signalfd_siginfo information;
          while (read(signals, &information, sizeof information) < 0) {
          }
          std::this_thread::sleep_for(BusyWatch::kPatience +
                                      std::chrono::milliseconds(500));
        }
        _exit(7);
      },
      ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace vrank::emulator
