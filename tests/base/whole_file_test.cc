// A file is there as a whole or not at all, however its writer ends.

#include "base/whole_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace vrank {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public ::testing::Test {
 protected:
  WholeFileTest()
      : folder_(::testing::TempDir() + "whole_" + std::to_string(getpid())),
        path_(folder_ + "/file") {
    fs::create_directory(folder_);
  }
  ~WholeFileTest() override { fs::remove_all(folder_); }

  std::string Contents() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const std::string folder_, path_;
};

TEST_F(WholeFileTest, ReplacesWhatIsThere) {
  for (const char* text : {"first", "second"}) {
    WholeFile file(path_);
    ASSERT_NE(file.stream(), nullptr);
    std::fputs(text, file.stream());
    EXPECT_TRUE(file.Commit());
    EXPECT_EQ(Contents(), text);
    EXPECT_EQ(Files(), 1u);
  }
}

TEST_F(WholeFileTest, HasTheRightsOfAnyNewFile) {
  std::ofstream(folder_ + "/other").put('x');
  WholeFile file(path_);
  ASSERT_TRUE(file.Commit());
  struct stat one = {}, other = {};
  ASSERT_EQ(stat(path_.c_str(), &one), 0);
  ASSERT_EQ(stat((folder_ + "/other").c_str(), &other), 0);
  EXPECT_EQ(one.st_mode, other.st_mode);
}

TEST_F(WholeFileTest, WithoutACommitNothingHasChanged) {
  std::ofstream(path_) << "old";
  {
    WholeFile file(path_);
    std::fputs("new", file.stream());
  }
  EXPECT_EQ(Contents(), "old");
  EXPECT_EQ(Files(), 1u);
}

TEST_F(WholeFileTest, AWriterThatIsKilledLeavesNothing) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    const pid_t child = fork();
    if (child == 0) {
      WholeFile file(path_);
      std::fputs(std::string(1 << 20, 'x').c_str(), file.stream());
      std::fflush(file.stream());
      raise(signal);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(Files(), 0u);
  }
}

TEST_F(WholeFileTest, AFailedWriteIsNoFile) {
  WholeFile file(path_);
  ASSERT_NE(file.stream(), nullptr);
  close(fileno(file.stream()));  // as if the disk were gone
  std::fputs("lost", file.stream());
  EXPECT_FALSE(file.Commit());
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(Files(), 0u);
}

// As on a file system that knows no unnamed files.
TEST_F(WholeFileTest, ANameOfItsOwnIsGoneAfterwards) {
  constexpr auto kNamed = WholeFile::Unnamed::kNever;
  std::ofstream(path_ + ".partial") << "the user's own";
  {
    WholeFile file(path_, kNamed);
    std::fputs("lost", file.stream());
    EXPECT_EQ(Files(), 2u);
  }
  EXPECT_EQ(Files(), 1u);
  EXPECT_EXIT(
      {
        EndOnInterruption("vrank build");
        WholeFile file(path_, kNamed);
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_EQ(Files(), 1u);
  WholeFile file(path_, kNamed);
  std::fputs("kept", file.stream());
  EXPECT_TRUE(file.Commit());
  EXPECT_EQ(Contents(), "kept");
  EXPECT_EQ(Files(), 2u);
}

TEST_F(WholeFileTest, ManyWritersLeaveOneWholeFile) {
  constexpr int kWriters = 20;
  constexpr size_t kBytes = 1 << 18;
  for (int i = 0; i < kWriters; ++i)
    if (fork() == 0) {
      WholeFile file(path_, i % 2 == 0 ? WholeFile::Unnamed::kIfPossible
                                       : WholeFile::Unnamed::kNever);
      std::fputs(std::string(kBytes, static_cast<char>('a' + i)).c_str(),
                 file.stream());
      _exit(file.Commit() ? 0 : 1);
    }
  for (int i = 0; i < kWriters; ++i) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  const std::string contents = Contents();
  ASSERT_EQ(contents.size(), kBytes);
  EXPECT_EQ(contents, std::string(kBytes, contents[0]));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(WholeFileTest, AFolderInThePlaceStays) {
  fs::create_directory(path_);
  WholeFile file(path_);
  ASSERT_NE(file.stream(), nullptr);
  EXPECT_FALSE(file.Commit());
  EXPECT_EQ(errno, EISDIR);
}

TEST_F(WholeFileTest, NoFolderNoFile) {
  WholeFile file(folder_ + "/nowhere/file");
  EXPECT_EQ(file.stream(), nullptr);
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace vrank
