// What is opened as a file, and what is refused without a wait.

#include "base/regular_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace vrank {
namespace {

using testing::HasSubstr;

class RegularFileTest : public testing::Test {
 protected:
  static std::string ErrorOf(const std::string& path) {
    return std::string(ReadRegularFile(path, 1000).status().message());
  }
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
};

TEST_F(RegularFileTest, ReadsFilesAndLinksToThem) {
  std::ofstream(folder + "/file") << std::string(1000, 'x');
  std::ofstream(folder + "/empty");
  std::filesystem::create_symlink(folder + "/file", folder + "/link");
  for (const char* name : {"/file", "/link"})
    EXPECT_EQ(*ReadRegularFile(folder + name, 1000), std::string(1000, 'x')) << name;
  EXPECT_EQ(*ReadRegularFile(folder + "/empty", 0), "");
  EXPECT_THAT(ReadRegularFile(folder + "/file", 999).status().ToString(),
              HasSubstr("more than 999 bytes"));
}

TEST_F(RegularFileTest, RefusesEverythingElseAtOnce) {
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  (folder + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(listener);
  std::filesystem::create_symlink(folder + "/circle", folder + "/circle");

  EXPECT_THAT(ErrorOf(folder + "/pipe"), HasSubstr("but a pipe"));
  EXPECT_THAT(ErrorOf(folder + "/socket"), HasSubstr("but a socket"));
  EXPECT_THAT(ErrorOf(folder), HasSubstr("but a folder"));
  for (const char* name : {"/dev/null", "/dev/zero"})
    EXPECT_THAT(ErrorOf(name), HasSubstr("but a device")) << name;
  for (const char* name : {"/proc/self/maps", "/proc/kmsg", "/sys/kernel/profiling"})
    EXPECT_NE(ErrorOf(name), "") << name;
  EXPECT_THAT(ErrorOf("/proc/self/maps"), HasSubstr("view of the kernel"));
  EXPECT_TRUE(absl::IsNotFound(ReadRegularFile(folder + "/missing", 1).status()));
  EXPECT_THAT(ErrorOf(folder + "/circle"), HasSubstr("check the path"));
  EXPECT_NE(ErrorOf(std::string("a\0b", 3)), "");
}

}  // namespace
}  // namespace vrank
