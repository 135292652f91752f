// `vrank kernels` on files, and the tables that --kernel-times reads.

#include "tools/commands/kernels_command.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/trace/trace_file.h"
#include "tests/scratch_folder.h"
#include "tools/job/kernel_times.h"

namespace vrank::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Result {
  int code = 0;
  std::string out, error;
};

class KernelsCommandTest : public testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_ / name; }

  // One kernel, launched once per time.
  std::string Trace(const std::string& name, const std::string& gpu,
                    const std::vector<int64_t>& times, bool virtual_gpu = false) {
    graph::RankTrace trace;
    trace.session.world_size = 1;
    trace.session.gpu = gpu;
    trace.session.virtual_gpu = virtual_gpu;
    trace.names = {"", "cudaLaunchKernel", "_Z5scalePfi"};
    for (const int64_t ns : times) {
      graph::TracedCall call;
      call.function = 1;
      call.correlation = static_cast<uint32_t>(trace.calls.size() + 1);
      call.start_ns = 100 * call.correlation;
      call.end_ns = call.start_ns + 10;
      trace.calls.push_back(call);
      graph::TracedWork work;
      work.correlation = call.correlation;
      work.context = 1;
      work.stream = 7;
      work.name = 2;
      work.grid[0] = 64;
      work.block[0] = 256;
      work.start_ns = call.end_ns;
      work.end_ns = call.end_ns + ns;
      trace.work.push_back(work);
    }
    EXPECT_TRUE(graph::WriteTrace(At(name), trace).ok());
    return At(name);
  }

  static Result Run(std::vector<std::string> arguments) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Result result;
    result.code = RunKernelsCommand(SplitAtDashes(arguments));
    fflush(stdout);
    result.out = testing::internal::GetCapturedStdout();
    result.error = testing::internal::GetCapturedStderr();
    return result;
  }

  ScratchFolder folder_;
};

TEST_F(KernelsCommandTest, CollectsMergesAndShows) {
  const std::string a = Trace("a.vtrace", "h100", {300, 100, 200});
  const std::string b = Trace("b.vtrace", "h100", {900});
  ASSERT_EQ(Run({"collect", a, "-o", At("a.vkernels")}).code, kExitFine);
  ASSERT_EQ(Run({"collect", b, "-o", At("b.vkernels")}).code, kExitFine);
  ASSERT_EQ(
      Run({"merge", At("a.vkernels"), At("b.vkernels"), "-o", At("all.vkernels")}).code,
      kExitFine);
  const Result shown = Run({"show", At("all.vkernels"), "--json"});
  ASSERT_EQ(shown.code, kExitFine) << shown.error;
  const auto json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["schema"], "vrank.kernels/1");
  EXPECT_EQ(json["gpu"], "h100");
  EXPECT_EQ(json["sources"], (std::vector<std::string>{"a.vtrace", "b.vtrace"}));
  ASSERT_EQ(json["kernels"].size(), 1u);
  EXPECT_EQ(json["kernels"][0]["name"], "scale(float*, int)");
  EXPECT_EQ(json["kernels"][0]["grid"], (std::vector<int>{64, 1, 1}));
  EXPECT_EQ(json["kernels"][0]["count"], 4);
  EXPECT_EQ(json["kernels"][0]["median_ns"], 200);
  EXPECT_EQ(json["kernels"][0]["min_ns"], 100);
  EXPECT_THAT(Run({"show", At("all.vkernels")}).out,
              AllOf(HasSubstr("GPU h100, 1 kernels of different name or launch, 4 "
                              "launches"),
                    HasSubstr("64x1x1"), HasSubstr("200 ns")));
}

TEST_F(KernelsCommandTest, CollectsTheSameTableInAnyOrder) {
  const std::string a = Trace("a.vtrace", "h100", {300, 100, 200});
  const std::string b = Trace("b.vtrace", "h100", {900});
  EXPECT_EQ(Run({"collect", a, b, "-o", At("t"), "--json"}).out,
            Run({"collect", b, a, "-o", At("t"), "--json"}).out);
}

TEST_F(KernelsCommandTest, RefusesWhatItCannotUse) {
  const std::string h100 = Trace("h100.vtrace", "h100", {300});
  const std::string a100 = Trace("a100.vtrace", "a100", {300});
  const std::string unnamed = Trace("unnamed.vtrace", "", {300});
  const std::string modelled = Trace("modelled.vtrace", "h100", {300}, true);
  const std::string out = At("out.vkernels");
  auto error_of = [&](std::vector<std::string> arguments, int code = kExitFailed) {
    const Result result = Run(std::move(arguments));
    EXPECT_EQ(result.code, code);
    EXPECT_EQ(result.out, "");
    return result.error;
  };
  EXPECT_THAT(error_of({"collect", a100, h100, "-o", out}),
              AllOf(HasSubstr("h100.vtrace': the kernel table is of GPU 'a100', not of "
                              "'h100'")));
  EXPECT_THAT(error_of({"collect", unnamed, "-o", out}),
              HasSubstr("it does not say which GPU it is of; state it with --gpu"));
  EXPECT_THAT(error_of({"collect", modelled, "-o", out}),
              HasSubstr("it is of a virtual GPU"));
  EXPECT_THAT(error_of({"collect", At("x.vtrace.raw"), "-o", out}),
              HasSubstr("of a slice that failed"));
  EXPECT_THAT(error_of({"collect", At("none.vtrace"), "-o", out}),
              HasSubstr("none.vtrace"));
  EXPECT_THAT(error_of({"show", h100}), HasSubstr("no kernel table"));
  EXPECT_FALSE(std::filesystem::exists(out));
  ASSERT_EQ(Run({"collect", h100, "-o", At("h100")}).code, kExitFine);
  ASSERT_EQ(Run({"collect", a100, "-o", At("a100")}).code, kExitFine);
  EXPECT_THAT(error_of({"merge", At("h100"), At("a100"), "-o", out}),
              HasSubstr("are of different GPUs: 'h100' and 'a100'"));
  // Their launches would count twice.
  EXPECT_THAT(error_of({"merge", At("h100"), At("h100"), "-o", out}, kExitUsage),
              HasSubstr("they are one file; name it once"));
  std::filesystem::copy_file(At("h100"), At("copy"));
  EXPECT_THAT(error_of({"merge", At("h100"), At("copy"), "-o", out}),
              HasSubstr("hold the same launches"));
  EXPECT_THAT(
      error_of({"collect", h100, folder_ / "./h100.vtrace", "-o", out}, kExitUsage),
      HasSubstr("they are one file; name it once"));
}

TEST_F(KernelsCommandTest, SaysHowItIsUsed) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"sum", "a"},
      {"collect", "a"},
      {"merge", "a", "-o", "b"},
      {"merge", "a", "b", "-o", "c", "--gpu", "h100"},
      {"show", "a", "b"},
      {"show", "a", "-o", "b"},
      {"show", "a", "--", "program"},
  };
  for (const auto& arguments : wrong) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, kExitUsage) << testing::PrintToString(arguments);
    EXPECT_THAT(result.error, HasSubstr("vrank kernels: "));
  }
  EXPECT_THAT(Run({"--help"}).out, HasSubstr("# vrank kernels"));
}

TEST_F(KernelsCommandTest, GivesJobsTheTimesOfTheirGpu) {
  const uint32_t grid[3] = {64, 1, 1}, block[3] = {256, 1, 1};
  const std::string a = Trace("a.vtrace", "h100", {300});
  ASSERT_EQ(Run({"collect", a, "-o", At("a")}).code, kExitFine);
  EXPECT_EQ(*ReadKernelTimes({}, "h100"), nullptr);
  const auto times = ReadKernelTimes({At("a"), At("a")}, "h100");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ((*times)->Find("_Z5scalePfi", grid, block, 0), 300);
  EXPECT_THAT(std::string(ReadKernelTimes({At("a")}, "b200").status().message()),
              AllOf(HasSubstr("--kernel-times " + At("a")), HasSubstr("'h100'"),
                    HasSubstr("'b200'")));
  EXPECT_THAT(std::string(ReadKernelTimes({At("b")}, "h100").status().message()),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace vrank::tools
