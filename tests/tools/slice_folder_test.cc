// Which slices the arguments of `vrank build` name.

#include "tools/slice_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using testing::HasSubstr;

TEST(SliceFolderTest, SaysWhatWasNamedTwice) {
  const std::string folder = testing::TempDir() + "/slice_folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string file = folder + "/rank000000.vtrace";
  std::ofstream(file).put('x');

  EXPECT_EQ(ListSlices({folder})->size(), 1u);
  auto error = [](const std::vector<std::string>& places) {
    return ListSlices(places).status().ToString();
  };
  EXPECT_THAT(error({folder, folder}), HasSubstr("it was named twice"));
  EXPECT_THAT(error({file, file}), HasSubstr("it was named twice"));
  EXPECT_THAT(error({folder, folder + "/."}), HasSubstr("they are the same"));
  EXPECT_THAT(error({folder, file}), HasSubstr("they are one file"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vrank::tools
