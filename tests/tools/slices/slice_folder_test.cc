// Which slices the arguments of `vrank build` name.

#include "tools/slices/slice_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using testing::AllOf;
using testing::ElementsAre;
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
  EXPECT_THAT(error({folder, file}), HasSubstr("named twice, once by its folder"));
  std::filesystem::create_symlink(file, folder + "/other.vtrace");
  EXPECT_THAT(error({folder}), HasSubstr("they are one file"));
  std::filesystem::remove_all(folder);
}

TEST(SliceFolderTest, NamesWhatFailedSlicesLeft) {
  const std::string folder = testing::TempDir() + "/slice_folder_raw";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const char* name : {"/rank000001.vtrace.raw", "/rank000000.vtrace.raw"})
    std::ofstream(folder + name).put('x');
  EXPECT_THAT(ListSlices({folder}).status().ToString(),
              AllOf(HasSubstr("rank000000.vtrace.raw and 1 more"),
                    HasSubstr("vrank build --list")));
  EXPECT_EQ(ListSlices({folder}, /*with_raw=*/true)->size(), 2u);

  std::ofstream(folder + "/rank000002.vtrace").put('x');
  std::vector<std::string> left_out;
  EXPECT_THAT(*ListSlices({folder}, false, &left_out),
              ElementsAre(folder + "/rank000002.vtrace"));
  EXPECT_THAT(left_out, ElementsAre(folder + "/rank000000.vtrace.raw",
                                    folder + "/rank000001.vtrace.raw"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vrank::tools
