#include "tools/machine/scratch_folder.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

namespace fs = std::filesystem;

TEST(ScratchFolderTest, GoesWithItsOwner) {
  std::string path;
  {
    const auto folder = ScratchFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    path = folder->path();
    EXPECT_TRUE(fs::is_directory(path));
    std::ofstream(path + "/file") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchFolderTest, GoesWithAnOwnerThatIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto folder = ScratchFolder::Make();
    fs::create_directories(folder->path() + "/in/side");
    std::ofstream(folder->path() + "/in/side/file") << "text";
    if (write(ends[1], folder->path().data(), folder->path().size()) > 0)
      raise(SIGKILL);
    _exit(1);
  }
  char name[4096] = {};
  ASSERT_GT(read(ends[0], name, sizeof name - 1), 0);
  int status = 0;
  waitpid(owner, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  for (int i = 0; i < 500 && fs::exists(name); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(fs::exists(name)) << name;
}

// The end of a session kills all children of the process.
TEST(ScratchFolderTest, HasNoChildOfItsOwner) {
  int adopts = 0;
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const auto folder = ScratchFolder::Make();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  ASSERT_EQ(prctl(PR_GET_CHILD_SUBREAPER, &adopts), 0);
  EXPECT_EQ(adopts, 1);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(ScratchFolderTest, NamesAPlaceWithoutRoom) {
  ASSERT_EQ(setenv("TMPDIR", "/proc", 1), 0);
  const auto folder = ScratchFolder::Make();
  unsetenv("TMPDIR");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("TMPDIR"), std::string::npos);
}

TEST(ScratchFolderTest, NamesAPlaceThatIsNotThere) {
  ASSERT_EQ(setenv("TMPDIR", "/not/there", 1), 0);
  const auto folder = ScratchFolder::Make();
  unsetenv("TMPDIR");
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.status().message().find("'/not/there' (No such file or directory)"),
            std::string::npos)
      << folder.status();
}

}  // namespace
}  // namespace vrank::tools
