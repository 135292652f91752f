// Signals that end a process: what is said, what is removed, how it ends.

#include "base/interruption.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>

namespace vrank {
namespace {

namespace fs = std::filesystem;
using ::testing::KilledBySignal;

class InterruptionTest : public ::testing::Test {
 protected:
  InterruptionTest() { fs::create_directories(outer / "inner"); }
  ~InterruptionTest() override { fs::remove_all(outer); }
  void Begin() {
    EndOnInterruption("vrank trace");
    SetWhatStays("2 of 3 slices are complete");
  }
  const fs::path outer =
      fs::path(::testing::TempDir()) / ("interruption_" + std::to_string(getpid()));
};

TEST_F(InterruptionTest, SaysWhatStaysAndEndsByTheSignal) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    EXPECT_EXIT(
        {
          Begin();
          raise(number);
        },
        KilledBySignal(number),
        "^vrank trace: interrupted by SIG[A-Z]+; 2 of 3 slices are complete\n$");
}

TEST_F(InterruptionTest, RemovesFilesAndEmptyFolders) {
  std::ofstream(outer / "file") << "x";
  std::ofstream(outer / "other") << "x";
  EXPECT_EXIT(
      {
        Begin();
        const RemovedOnInterruption folder(outer);
        const RemovedOnInterruption inner(outer / "inner");
        const RemovedOnInterruption file(outer / "file");
        std::optional<RemovedOnInterruption> other(outer / "other");
        other.reset();
        raise(SIGTERM);
      },
      KilledBySignal(SIGTERM), "");
  EXPECT_FALSE(fs::exists(outer / "inner"));
  EXPECT_FALSE(fs::exists(outer / "file"));
  EXPECT_TRUE(fs::exists(outer / "other"));  // and with it its folder
}

TEST_F(InterruptionTest, LeavesWhatIsIgnoredIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        Begin();
        raise(SIGHUP);
        NoteInterruption(SIGINT);
        EndByInterruption();
      },
      KilledBySignal(SIGINT), "^$");
}

}  // namespace
}  // namespace vrank
