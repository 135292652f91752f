// Files that are no JSON: one error that names the file, its kind and a way out.

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/execution_trace.h"
#include "graph/import/file_kind.h"
#include "graph/import/json_source.h"
#include "graph/import/kineto_import.h"
#include "graph/import/kineto_reader.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/recording_text.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

using std::string_view_literals::operator""sv;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kTrace = R"({"traceEvents": []})";

// In UTF-16.
std::string Wide(std::string_view text, bool big_endian) {
  std::string wide;
  for (const char c : text)
    wide += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return wide;
}

struct Case {
  std::string bytes;
  const char *kind, *way_out;
};

std::vector<Case> Cases() {
  return {
      {"\xFF\xFE" + Wide(kTrace, false), "UTF-16", "iconv"},
      {"\xFE\xFF" + Wide(kTrace, true), "UTF-16", "iconv"},
      {Wide(kTrace, false), "UTF-16", "UTF-16LE"},
      {Wide(kTrace, true), "UTF-16", "UTF-16BE"},
      {std::string("PK\3\4\x14\0\0\0trace.json"sv), "zip archive", "unpack"},
      {std::string("PK\5\6\0\0\0\0"sv), "zip archive", "give JSON"},
      {std::string("\x28\xB5\x2F\xFD\x04\0"sv), "zstd", "zstd -d"},
      {std::string("\xFD"
                   "7zXZ\0\0"sv),
       "xz", "xz -d"},
      {"BZh91AY&SY", "bzip2", "bzip2 -d"},
      {std::string("\x04\x22\x4D\x18\x64\x40"sv), "lz4", "lz4 -d"},
      {std::string("\x80\x04\x95\x10\0\0\0\0\0\0\0}"sv), "pickle",
       "export_chrome_trace"},
      {"(dp0\nS'segments'\np1\n", "pickle", "export_chrome_trace"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
       "Git LFS", "git lfs pull"},
      {std::string("SQLite format 3\0\x10\0"sv), "SQLite", "torch.profiler"},
      {"<!DOCTYPE html>\n<html><head></head></html>\n", "web page", "download"},
      {"\n  <html></html>", "web page", "download"},
      {std::string(257, 'a') + "ustar" + std::string(250, '\0'), "tar archive",
       "unpack"},
  };
}

TEST(OtherFilesTest, AreOneErrorThatNamesTheKindAndAWayOut) {
  const ProfileFiles files;
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.kind);
    const auto expected = AllOf(HasSubstr("trace.json'"), HasSubstr(one.kind),
                                HasSubstr(one.way_out), Not(HasSubstr("\n")));
    const std::string file = files.Write("trace.json", one.bytes);
    EXPECT_THAT(ImportKineto({{file}, {}}).status().ToString(), expected);
    EXPECT_THAT(ReadExecutionTrace(file).status().ToString(), expected);
    const std::string packed = files.WriteGz("trace.json", one.bytes);
    EXPECT_THAT(ImportKineto({{packed}, {}}).status().ToString(), expected);
  }
}

TEST(OtherFilesTest, EmptyAndCutOffFilesAreNamed) {
  const ProfileFiles files;
  const auto error = [&](const std::string& bytes) {
    return ImportKineto({{files.Write("trace.json.gz", bytes)}, {}})
        .status()
        .ToString();
  };
  EXPECT_THAT(error(""), HasSubstr("is empty"));
  // The header of gzip, and no more.
  EXPECT_THAT(error(std::string("\x1F\x8B\x08\0\0\0\0\0\0\x03"sv)),
              HasSubstr("cut off"));
  EXPECT_THAT(error("\x1F\x8B"), HasSubstr("cut off"));
}

// Windows' editors write it.
TEST(OtherFilesTest, ByteOrderMarksOfUtf8ArePassedOver) {
  const ProfileFiles files;
  std::mt19937 random(1);
  const SimulatedRun run = RandomRun(&random, 1, 12);
  const std::string text = ProfileOf(run, Simulate(run), 0);
  const std::string marked = std::string(kByteOrderMark) + text;
  const std::string plain = files.Write("plain.json", text);
  for (const std::string& file :
       {files.Write("trace.json", marked), files.WriteGz("trace.json.gz", marked)}) {
    auto recording = ReadKineto(file);
    ASSERT_TRUE(recording.ok()) << recording.status().ToString();
    EXPECT_EQ(recording->bytes, marked.size());
    recording->bytes = text.size();
    EXPECT_EQ(RecordingText(recording), RecordingText(ReadKineto(plain)));
  }
  const auto trace = ReadExecutionTrace(files.Write(
      "et.json", std::string(kByteOrderMark) + R"({"pid": 7, "nodes": []})"));
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(trace->pid, 7);
  // A mark alone.
  EXPECT_THAT(ReadKineto(files.Write("mark.json", std::string(kByteOrderMark)))
                  .status()
                  .ToString(),
              HasSubstr("the file is empty"));
}

TEST(OtherFilesTest, JsonIsNone) {
  for (const std::string_view text : {"{\"traceEvents\": []}"sv, " \n\t[]"sv,
                                      "[{\"ph\": \"X\"}]"sv, "17"sv, ""sv, "{"sv})
    EXPECT_EQ(DescribeOtherKind(text), "") << text;
}

}  // namespace
}  // namespace vrank::graph
