// What commands write must never be what they read.

#include "tools/machine/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch_folder.h"

namespace vrank::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(At("input")) << "precious"; }

  std::string At(const std::string& name) const { return folder_ / name; }
  std::string Content(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(At(name)).rdbuf();
    return text.str();
  }
  absl::Status Write(const std::string& name, const std::string& text) const {
    return WriteOutput({"--to", At(name)}, [&](std::ostream& file) {
      file << text;
      return absl::OkStatus();
    });
  }

  // Of outputs --to0, --to1, ... with an input.
  absl::Status Clash(const std::vector<std::string>& outputs) const {
    NamedFiles files;
    files.read = {{"graph", At("input")}, {"--cluster", "no-file"}};
    for (const std::string& name : outputs)
      files.written.push_back(
          {"--to" + std::to_string(files.written.size()), At(name)});
    return CheckNamedFiles(files);
  }

  ScratchFolder folder_;
};

TEST_F(OutputFileTest, RefusesAnInputUnderAnyName) {
  fs::create_hard_link(At("input"), At("hard"));
  fs::create_symlink(At("input"), At("soft"));
  fs::create_symlink(folder_.path(), At("folder"));
  for (const char* name : {"input", "hard", "soft", "folder/input", "./input"}) {
    const absl::Status status = Clash({name});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr("overwrite the input")) << name;
  }
  EXPECT_TRUE(Clash({"another"}).ok());
}

// Whether they are there already or not.
TEST_F(OutputFileTest, RefusesTwoOutputsInOneFile) {
  fs::create_symlink(At("later"), At("link"));
  fs::create_symlink(folder_.path(), At("folder"));
  for (const char* name : {"later", "link", "folder/later", "./later"})
    for (const auto& names : {std::vector<std::string>{"later", name},
                              std::vector<std::string>{name, "later"}})
      EXPECT_THAT(Clash(names).ToString(), HasSubstr("--to0 ")) << name;
  std::ofstream(At("later")) << "there";
  fs::create_hard_link(At("later"), At("hard"));
  EXPECT_THAT(Clash({"hard", "other", "link"}).ToString(),
              AllOf(HasSubstr("--to0 "), HasSubstr("--to2 "), HasSubstr("overwrite")));
  EXPECT_TRUE(Clash({"later", "other", "third"}).ok());
  EXPECT_TRUE(
      CheckNamedFiles({{}, {{"--a", "/dev/null"}, {"--b", "/dev/null"}}, {}}).ok());
}

TEST_F(OutputFileTest, RefusesAFolderOfOtherOutputs) {
  EXPECT_THAT(
      CheckNamedFiles({{}, {{"--a", At("x")}}, {{"--log-dir", At("./x")}}}).ToString(),
      HasSubstr("it is the folder of --log-dir"));
}

TEST_F(OutputFileTest, RefusesWhereStandardOutputGoes) {
  const std::string path = At("redirected");
  const int before = dup(STDOUT_FILENO);
  FILE* const file = std::fopen(path.c_str(), "w");
  fflush(stdout);
  ASSERT_GE(dup2(fileno(file), STDOUT_FILENO), 0);
  const absl::Status clash = Clash({"redirected"}), fine = Clash({"another"}),
                     through = CheckNamedFiles({{}, {{"--a", "/dev/stdout"}}, {}});
  dup2(before, STDOUT_FILENO);
  close(before);
  std::fclose(file);
  EXPECT_THAT(clash.ToString(), HasSubstr("standard output goes there, too"));
  EXPECT_THAT(through.ToString(), HasSubstr("standard output goes there, too"));
  EXPECT_TRUE(fine.ok()) << fine;
}

// /dev/shm is a folder of files like any other.
TEST_F(OutputFileTest, WritesAWholeFileInSharedMemory) {
  const std::string path =
      "/dev/shm/vrank_output_file_test_" + std::to_string(getpid());
  EXPECT_TRUE(CheckReplacedOutput({"-o", path}).ok());
  const absl::Status failed = WriteOutput({"-o", path}, [](std::ostream& file) {
    file << "half";
    return absl::InternalError("no more");
  });
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(WriteOutput({"-o", path}, [](std::ostream& file) {
                file << "text";
                return absl::OkStatus();
              }).ok());
  EXPECT_TRUE(fs::remove(path));
}

// Where standard output leads to a file, a name of it is written, not replaced.
TEST_F(OutputFileTest, LeavesOpenFilesInTheirPlace) {
  for (const char* name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
    EXPECT_THAT(CheckReplacedOutput({"-o", name}).ToString(),
                HasSubstr("no regular file"))
        << name;
}

TEST_F(OutputFileTest, TouchesNoOtherFileOfTheFolder) {
  std::ofstream(At("new.partial")) << "the user's own";
  ASSERT_TRUE(Write("new", "first").ok());
  EXPECT_EQ(Content("new.partial"), "the user's own");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()),
      3);  // and "input"
}

TEST_F(OutputFileTest, ReplacesAsAWholeOrNotAtAll) {
  ASSERT_TRUE(Write("new", "first").ok());
  ASSERT_TRUE(Write("new", "second").ok());
  EXPECT_EQ(Content("new"), "second");
  const absl::Status failed = WriteOutput({"--to", At("new")}, [](std::ostream& file) {
    file << "half";
    return absl::InternalError("no more");
  });
  EXPECT_THAT(failed.ToString(), HasSubstr("--to"));
  EXPECT_EQ(Content("new"), "second");
  EXPECT_EQ(
      std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()),
      2);  // and "input"
}

TEST_F(OutputFileTest, WritesWhereALinkLeads) {
  fs::create_symlink(At("target"), At("link"));
  ASSERT_TRUE(Write("link", "text").ok());
  EXPECT_TRUE(fs::is_symlink(At("link")));
  EXPECT_EQ(Content("target"), "text");
}

TEST_F(OutputFileTest, RefusesMoreThanThereIsRoomFor) {
  constexpr uint64_t kTooMuch = uint64_t{1} << 60;
  EXPECT_TRUE(CheckRoom({"--out", At("file")}, 1).ok());
  const absl::Status refused = CheckRoom({"--out", At("file")}, kTooMuch);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--out " + At("file")), HasSubstr("1024.00 PiB"),
                    HasSubstr(folder_.path() + " has room for ")));
  EXPECT_TRUE(CheckRoom({"--out", "/dev/null"}, kTooMuch).ok());
}

TEST_F(OutputFileTest, LeavesDevicesAndFoldersAlone) {
  const OutputFile null = {"--to", "/dev/null"};
  EXPECT_TRUE(WriteOutput(null, [](std::ostream& file) {
                file << "text";
                return absl::OkStatus();
              }).ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(CheckReplacedOutput(null).ToString(), HasSubstr("no regular file"));
  EXPECT_THAT(CheckOutput({"--to", folder_.path()}).ToString(), HasSubstr("a folder"));
  EXPECT_THAT(Write("nowhere/file", "x").ToString(),
              HasSubstr("does its folder exist"));
}

}  // namespace
}  // namespace vrank::tools
