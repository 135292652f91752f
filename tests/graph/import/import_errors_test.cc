// Files that are damaged, or that do not belong together: one error that names the
// file, the place and a way out.

#include <sys/resource.h>

#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/execution_trace.h"
#include "graph/import/kineto_import.h"
#include "graph/import/kineto_reader.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImportErrorsTest : public ::testing::Test {
 protected:
  ImportErrorsTest() {
    std::mt19937 random(1);
    run_ = RandomRun(&random, 2, 40);
    times_ = Simulate(run_);
  }
  std::string Profile(int rank, const ProfileOptions& options = {}) const {
    return ProfileOf(run_, times_, rank, options);
  }
  std::string ErrorOf(const std::vector<std::string>& files) const {
    return ImportKineto({files, {}}).status().ToString();
  }
  // Of a file with this text.
  std::string ErrorOfText(const std::string& text) const {
    return ErrorOf(std::vector<std::string>{files_.Write("t.json", text)});
  }
  static std::string Replaced(std::string text, const std::string& from,
                              const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  SimulatedRun run_;
  SimulatedTimes times_;
  ProfileFiles files_;
};

TEST_F(ImportErrorsTest, NamesAFileThatIsMissing) {
  EXPECT_THAT(ErrorOf({files_.PathOf("no.json")}),
              AllOf(HasSubstr("no.json'"), HasSubstr("No such file")));
}

TEST_F(ImportErrorsTest, FindsEveryPlaceWhereJsonIsCutOff) {
  const std::string whole = Profile(0);
  const size_t end = whole.find_last_of('}');
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const size_t cut = round < 20 ? static_cast<size_t>(round) : random() % end;
    const std::string error = ErrorOfText(whole.substr(0, cut));
    ASSERT_THAT(error, AllOf(HasSubstr("t.json'"), HasSubstr("again"))) << cut;
    ASSERT_TRUE(error.find("ends in the middle") != std::string::npos ||
                error.find("is empty") != std::string::npos)
        << error;
  }
}

// What a file system leaves of a file that was not written to its end.
TEST_F(ImportErrorsTest, TellsZerosFromAnEmptyFile) {
  EXPECT_THAT(ErrorOfText(""), HasSubstr("the file is empty"));
  EXPECT_THAT(ErrorOfText(std::string(100'000, '\0')),
              HasSubstr("the file begins with a zero byte"));
}

TEST_F(ImportErrorsTest, FindsEveryPlaceWhereGzipIsCutOff) {
  const std::string path = files_.WriteGz("whole.gz", Profile(0));
  FILE* file = std::fopen(path.c_str(), "rb");
  std::string whole(1 << 20, '\0');
  whole.resize(std::fread(whole.data(), 1, whole.size(), file));
  std::fclose(file);
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const size_t cut = 20 + random() % (whole.size() - 20);
    const std::string error =
        ErrorOf({files_.Write("cut.json.gz", whole.substr(0, cut))});
    ASSERT_THAT(error, AllOf(HasSubstr("cut.json.gz'"), HasSubstr("cut off"))) << cut;
  }
}

TEST_F(ImportErrorsTest, SaysWhereNestingIsWrong) {
  EXPECT_THAT(ErrorOfText(Replaced(Profile(0), "\"args\": {", "\"args\": [")),
              AllOf(HasSubstr("byte "), HasSubstr("t.json'")));
  for (const auto& [event, found] : {std::pair("[]", "a list"),
                                     {R"([{"ph": "X"}])", "a list"},
                                     {"[1, 2]", "a list"},
                                     {"42", "a number"},
                                     {"null", "null"},
                                     {"\"x\"", "a string"},
                                     {"true", "a truth value"}}) {
    const auto holds = [&found](int place) {
      return AllOf(
          HasSubstr("t.json': byte "),
          HasSubstr(fmt::format("holds {} where event {} should be", found, place)));
    };
    EXPECT_THAT(ErrorOfText(fmt::format(R"({{"traceEvents": [{}]}})", event)),
                holds(1));
    EXPECT_THAT(ErrorOfText(fmt::format("[{{}}, {}]", event)), holds(2));
    EXPECT_THAT(
        ErrorOfText(Replaced(Profile(0), "\"traceEvents\": [",
                             fmt::format("\"traceEvents\": [{{}}, {}, ", event))),
        holds(2));
  }
  for (const auto& [args, found] : {std::pair("[1]", "a list"),
                                    {R"([{"a": 1}])", "a list"},
                                    {"7", "a number"},
                                    {"\"x\"", "a string"}})
    EXPECT_THAT(
        ErrorOfText(Replaced(Profile(0), "\"traceEvents\": [",
                             fmt::format(R"("traceEvents": [{{"args": {}}}, )", args))),
        AllOf(HasSubstr("byte "),
              HasSubstr(fmt::format("\"args\" of event 1 are {}", found))));
  // None, in words.
  EXPECT_TRUE(
      ImportKineto(
          {{files_.Write("none.json", Replaced(Profile(0), "\"traceEvents\": [",
                                               R"("traceEvents": [{"args": null}, )"))},
           {}})
          .ok());
  std::string deep = R"({"traceEvents": [{"stack": )";
  for (int i = 0; i < 1'000'000; ++i)
    deep += '[';
  EXPECT_THAT(ErrorOfText(deep), HasSubstr("more than 64 deep"));
}

// Two spans of a thread of which the second outlives the first: no host makes them.
TEST_F(ImportErrorsTest, CountsSpansThatAreNotNested) {
  const auto count = [&](double overlap_us) {
    const std::string spans = fmt::format(
        R"("traceEvents": [
        {{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 77,
          "ts": 1700000000000100, "dur": 50}},
        {{"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 77,
          "ts": {:.3f}, "dur": 50}},)",
        1700000000000150.0 - overlap_us);
    const auto import = ImportKineto(
        {{files_.Write("t.json", Replaced(Profile(0), "\"traceEvents\": [", spans))},
         {}});
    EXPECT_TRUE(import.ok()) << import.status();
    uint64_t found = 0;
    for (const auto& loss : import->graph.losses)
      found += loss.name == "host_spans_not_nested" ? loss.count : 0;
    return found;
  };
  EXPECT_EQ(count(0), 0u);
  EXPECT_EQ(count(0.5), 0u);  // the recording's clock has rounded
  EXPECT_EQ(count(20), 1u);
}

TEST_F(ImportErrorsTest, SaysWhatFollowsTheEnd) {
  EXPECT_THAT(ErrorOfText(Profile(0) + "{}"), HasSubstr("more follows"));
}

TEST_F(ImportErrorsTest, RefusesTimesThatAreNone) {
  const std::string whole = Profile(0);
  EXPECT_THAT(ErrorOfText(Replaced(whole, "\"dur\": ", "\"dur\": -")),
              AllOf(HasSubstr("negative duration"), HasSubstr("byte ")));
  EXPECT_THAT(ErrorOfText(Replaced(whole, "\"ts\": ", "\"ts\": -")),
              HasSubstr("no time in microseconds"));
  EXPECT_THAT(ErrorOfText(Replaced(whole, "\"ts\": 17", "\"ts\": 1e99, \"x\": 17")),
              HasSubstr("no time in microseconds"));
  EXPECT_THAT(ErrorOfText(Replaced(whole, "\"ts\": 1700", "\"ts\": 1500")),
              HasSubstr("days apart"));
}

TEST_F(ImportErrorsTest, RefusesWhatIsNoProfile) {
  EXPECT_THAT(ErrorOfText("17"), HasSubstr("single value"));
  EXPECT_THAT(ErrorOfText(R"({"nodes": []})"), HasSubstr("traceEvents"));
  EXPECT_THAT(ErrorOfText(R"({"traceEvents": []})"),
              HasSubstr("ProfilerActivity.CUDA"));
}

TEST_F(ImportErrorsTest, RefusesRanksThatDoNotBelongTogether) {
  const std::string zero = files_.Write("0.json", Profile(0));
  const std::string one = Profile(1);
  const auto with = [&](const std::string& text) {
    return ErrorOf(std::vector<std::string>{zero, files_.Write("1.json", text)});
  };
  EXPECT_THAT(with(Profile(0)), AllOf(HasSubstr("0.json"), HasSubstr("1.json"),
                                      HasSubstr("both of rank 0")));
  EXPECT_THAT(with(Replaced(one, "\"world_size\": 2", "\"world_size\": 4")),
              AllOf(HasSubstr("not of one run"), HasSubstr("world sizes 2 and 4")));
  EXPECT_THAT(with(Replaced(one, "\"name\": \"GPU\"", "\"name\": \"other\"")),
              HasSubstr("GPUs 'GPU' and 'other'"));
  EXPECT_THAT(with(Replaced(one, "\"schemaVersion\": 1,",
                            "\"baseTimeNanoseconds\": 3600000000000,")),
              HasSubstr("before the other begins"));
  ProfileOptions other;
  other.elements = 4096;
  EXPECT_THAT(
      with(Profile(1, other)),
      AllOf(HasSubstr("collective 0 is all_reduce of 1024"),
            HasSubstr("all_reduce of 4096"), HasSubstr("0.json"), HasSubstr("1.json")));
  std::mt19937 random(7);
  const SimulatedRun longer = RandomRun(&random, 2, 90);
  EXPECT_THAT(with(ProfileOf(longer, Simulate(longer), 1)),
              AllOf(HasSubstr("collectives on rank 0"), HasSubstr("one run")));
}

TEST_F(ImportErrorsTest, RefusesARankThatIsNone) {
  for (const char* const rank : {"-3", "1.5", "1e300"})
    EXPECT_THAT(
        ErrorOfText(
            Replaced(Profile(0), "\"rank\": 0", fmt::format("\"rank\": {}", rank))),
        AllOf(HasSubstr("t.json"), HasSubstr(fmt::format("\"rank\" is {}", rank))));
}

TEST_F(ImportErrorsTest, RefusesARecordingOfNobodyBesideOthers) {
  const std::string text = Replaced(Profile(1), "\"rank\": 1", "\"place\": 1");
  EXPECT_THAT(ErrorOf(std::vector<std::string>{files_.Write("0.json", Profile(0)),
                                               files_.Write("1.json", text)}),
              AllOf(HasSubstr("1.json"), HasSubstr("whose rank")));
}

int64_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 100 MB of nothing in 100 kB, and a string without an end: read to a limit, in little
// memory.
TEST_F(ImportErrorsTest, StopsAtABomb) {
  const std::string megabyte(1 << 20, ' ');
  const std::string path = files_.PathOf("bomb.json.gz");
  gzFile file = gzopen(path.c_str(), "wb9");
  for (int i = 0; i < 100; ++i)
    gzwrite(file, megabyte.data(), static_cast<unsigned>(megabyte.size()));
  gzclose(file);
  const int64_t before = PeakKilobytes();
  EXPECT_THAT(ErrorOf({path}),
              AllOf(HasSubstr("bomb.json.gz'"), HasSubstr("this is no trace")));
  const std::string endless =
      R"({"traceEvents": [{"name": ")" + std::string(20 << 20, 'a') + "\"}]}";
  EXPECT_THAT(ErrorOfText(endless), HasSubstr("one value is longer"));
  EXPECT_LT(PeakKilobytes() - before, 100'000);
}

TEST_F(ImportErrorsTest, ReadsAGzipOfSeveralParts) {
  // As `cat a.gz b.gz` makes them.
  const std::string whole = Profile(0);
  const auto part = [&](const std::string& name, const std::string& text) {
    const std::string path = files_.WriteGz(name, text);
    FILE* file = std::fopen(path.c_str(), "rb");
    std::string bytes(1 << 20, '\0');
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
    std::fclose(file);
    return bytes;
  };
  const std::string joined = part("a.gz", whole.substr(0, whole.size() / 2)) +
                             part("b.gz", whole.substr(whole.size() / 2));
  const auto recording = ReadKineto(files_.Write("ab.gz", joined));
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ(recording->bytes, whole.size());
}

TEST_F(ImportErrorsTest, HoldsExecutionTracesAgainstTheirRecording) {
  // Without the kernel's own words on its collective.
  const std::string plain = files_.Write("0.json", R"json({
    "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "nccl:all_reduce", "pid": 9, "tid": 1,
     "ts": 10, "dur": 20, "args": {"Input Dims": [[4, 8]], "Input type": ["float"]}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1,
     "ts": 12, "dur": 5, "args": {"correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce(x)", "pid": 0, "tid": 7,
     "ts": 19, "dur": 30, "args": {"correlation": 1, "stream": 7, "device": 0}}]})json");
  const auto trace = [&](int pid, int elements) {
    return files_.Write("et.json", fmt::format(R"json({{"pid": {}, "nodes": [
        {{"id": 5, "name": "record_param_comms", "rf_id": 3,
         "inputs": [4, 0, 0, "wait", [], []]}},
        {{"id": 6, "name": "record_param_comms", "rf_id": 4,
         "inputs": [[[1, 2, 0, {}, 4, "cuda:0"]], 5, 940, 0, "allreduce", [], []]}}
        ]}})json",
                                               pid, elements));
  };
  EXPECT_TRUE(ImportKineto({{plain}, {trace(9, 32)}}).ok());
  EXPECT_THAT(ImportKineto({{plain}, {trace(9, 33)}}).status().ToString(),
              AllOf(HasSubstr("et.json"), HasSubstr("33 elements and of 32")));
  EXPECT_THAT(ImportKineto({{plain}, {trace(8, 32)}}).status().ToString(),
              AllOf(HasSubstr("et.json"), HasSubstr("process 8")));
  EXPECT_THAT(ReadExecutionTrace(plain).status().ToString(), HasSubstr("\"nodes\""));
}

}  // namespace
}  // namespace vrank::graph
