// What commands write must never be what they read.

#include "tools/output_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "/output_" + test->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(At("input")) << "precious";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  std::string Content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(At(name)).rdbuf();
    return text.str();
  }
  absl::Status Write(const std::string& name, const std::string& text) const {
    return WriteOutput({"--to", At(name), {At("input")}}, [&](std::ostream& file) {
      file << text;
      return absl::OkStatus();
    });
  }

  std::string folder_;
};

TEST_F(OutputFileTest, RefusesAnInputUnderAnyName) {
  fs::create_hard_link(At("input"), At("hard"));
  fs::create_symlink(At("input"), At("soft"));
  fs::create_symlink(folder_, At("folder"));
  for (const char* name : {"input", "hard", "soft", "folder/input", "./input"}) {
    const absl::Status status = Write(name, "x");
    EXPECT_THAT(status.ToString(), HasSubstr("overwrite the input")) << name;
    EXPECT_EQ(Content("input"), "precious") << name;
  }
}

TEST_F(OutputFileTest, RefusesToWriteBesideWhereAnInputLies) {
  fs::rename(At("input"), At("x.partial"));
  const absl::Status status = CheckReplacedOutput({"-o", At("x"), {At("x.partial")}});
  EXPECT_THAT(status.ToString(), HasSubstr("overwrite the input"));
}

TEST_F(OutputFileTest, ReplacesAsAWholeOrNotAtAll) {
  ASSERT_TRUE(Write("new", "first").ok());
  ASSERT_TRUE(Write("new", "second").ok());
  EXPECT_EQ(Content("new"), "second");
  const absl::Status failed =
      WriteOutput({"--to", At("new"), {}}, [](std::ostream& file) {
        file << "half";
        return absl::InternalError("no more");
      });
  EXPECT_THAT(failed.ToString(), HasSubstr("--to"));
  EXPECT_EQ(Content("new"), "second");
  EXPECT_FALSE(fs::exists(At("new.partial")));
}

TEST_F(OutputFileTest, WritesWhereALinkLeads) {
  fs::create_symlink(At("target"), At("link"));
  ASSERT_TRUE(Write("link", "text").ok());
  EXPECT_TRUE(fs::is_symlink(At("link")));
  EXPECT_EQ(Content("target"), "text");
}

TEST_F(OutputFileTest, LeavesDevicesAndFoldersAlone) {
  const OutputFile null = {"--to", "/dev/null", {}};
  EXPECT_TRUE(WriteOutput(null, [](std::ostream& file) {
                file << "text";
                return absl::OkStatus();
              }).ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(CheckReplacedOutput(null).ToString(), HasSubstr("no regular file"));
  EXPECT_THAT(CheckOutput({"--to", folder_, {}}).ToString(), HasSubstr("a folder"));
  EXPECT_THAT(Write("nowhere/file", "x").ToString(),
              HasSubstr("does its folder exist"));
}

}  // namespace
}  // namespace vrank::tools
