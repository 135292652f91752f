// What must not be opened as a file.

#include "base/regular_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank {
namespace {

using testing::HasSubstr;

TEST(RegularFileTest, TellsPipesAndDevicesFromFiles) {
  const std::string folder = testing::TempDir() + "/regular_file";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/file").put('x');
  std::filesystem::create_symlink(folder + "/file", folder + "/link");
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);

  for (const char* name : {"/file", "/link", "", "/missing"})
    EXPECT_TRUE(CheckNoPipe(folder + name).ok()) << name;
  EXPECT_THAT(CheckNoPipe(folder + "/pipe").ToString(), HasSubstr("but a pipe"));
  EXPECT_THAT(CheckNoPipe("/dev/null").ToString(), HasSubstr("but a device"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vrank
