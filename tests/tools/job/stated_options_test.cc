// What a slice keeps of flags and environment.

#include "tools/job/stated_options.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/job/program_fingerprint.h"

namespace vrank::tools {
namespace {

using testing::HasSubstr;

TEST(StatedOptionsTest, KnowsVariablesThatChangeResults) {
  for (const char* name :
       {"NCCL_COMM_BLOCKING", "NCCL_NTHREADS", "TORCH_NCCL_BLOCKING_WAIT",
        "PYTORCH_CUDA_ALLOC_CONF", "CUDA_LAUNCH_BLOCKING"})
    EXPECT_TRUE(ChangesResults(name)) << name;
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_HOME", "CUDA_HOME",
                           "PATH", "TORCH_LOGS", "VRANK_BUILD", "MY_NCCL_ALGO"})
    EXPECT_FALSE(ChangesResults(name)) << name;
}

// One flag at a time; each leaves its mark, and what nothing states leaves none.
TEST(StatedOptionsTest, KeepsEachFlagThatChangesAResult) {
  const std::string file = testing::TempDir() + "some.textproto";
  std::ofstream(file) << "one";
  const std::string nothing = *CostOptions({});
  const auto with = [&](const std::function<void(JobFlags&)>& change) {
    JobFlags flags;
    change(flags);
    const auto options = CostOptions(flags);
    EXPECT_TRUE(options.ok()) << options.status();
    EXPECT_NE(*options, nothing);
    return *options;
  };
  EXPECT_EQ(ValueOf(with([](JobFlags& f) { f.ranks_per_node = 4; }), "ranks_per_node"),
            "4");
  EXPECT_EQ(ValueOf(with([](JobFlags& f) { f.iteration_range = "epoch [0-9]+ 100%"; }),
                    kIterationRangeOption),
            "epoch [0-9]+ 100%");
  EXPECT_THAT(with([](JobFlags& f) { f.host_costs = {"launch=9000"}; }),
              HasSubstr("launch=9000"));
  EXPECT_THAT(with([](JobFlags& f) { f.payload_rules = {"world:broadcast=zero"}; }),
              HasSubstr("payload=world:broadcast=zero"));
  EXPECT_THAT(with([&](JobFlags& f) { f.values = file; }), HasSubstr("values:some."));
  EXPECT_THAT(with([&](JobFlags& f) { f.recorded_payloads = file; }),
              HasSubstr("recorded_payloads:some."));
  EXPECT_THAT(with([&](JobFlags& f) { f.kernels = {file}; }), HasSubstr("some."));
  EXPECT_THAT(with([&](JobFlags& f) { f.kernel_times = {file}; }), HasSubstr("some."));
  EXPECT_THAT(with([&](JobFlags& f) { f.gpu = file; }), HasSubstr("gpu:some."));
  EXPECT_EQ(FileOf(with([&](JobFlags& f) { f.cluster = file; }), kClusterOption),
            *FileFingerprint(file));
  const std::string one = with([&](JobFlags& f) { f.values = file; });
  std::ofstream(file) << "two";
  EXPECT_NE(with([&](JobFlags& f) { f.values = file; }), one);
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_THAT(*CostOptions({}), HasSubstr("NCCL_COMM_BLOCKING=0"));
  unsetenv("NCCL_COMM_BLOCKING");
  std::filesystem::remove(file);
  JobFlags gone;
  gone.values = file;
  EXPECT_THAT(CostOptions(gone).status().ToString(), HasSubstr("cannot be read"));
}

TEST(StatedOptionsTest, FlagsWithoutEffectLeaveNoMark) {
  JobFlags flags;
  flags.gpu = "h200";  // the slice has its name
  flags.cluster = "hgx-b200-ib400";
  flags.json = flags.quiet = flags.launcher = true;
  flags.log_dir = flags.record_payloads = "somewhere";
  flags.hang_after_s = flags.failure_grace_s = 1;
  EXPECT_EQ(*CostOptions(flags), *CostOptions({}));
}

TEST(StatedOptionsTest, FindsAnOptionAmongOthers) {
  const std::string options = "launch=1 ranks_per_node=16 cluster:a.textproto:12";
  EXPECT_EQ(ValueOf(options, "ranks_per_node"), "16");
  EXPECT_EQ(ValueOf(options, "per_node"), std::nullopt);
  EXPECT_EQ(ValueOf(options, "cluster"), std::nullopt);
  EXPECT_EQ(FileOf(options, "cluster"), "a.textproto:12");
  EXPECT_EQ(ValueOf("", "launch"), std::nullopt);
}

TEST(StatedOptionsTest, SayHowMuchTimeTheHostTakes) {
  const std::string file = testing::TempDir() + "some.vhost";
  std::ofstream(file) << "one";
  for (const auto& [host_time, mode] :
       {std::pair<std::string, std::string>("modelled", "modelled"),
        {"measured", "measured"},
        {file, "recorded"},
        {file + "," + file, "recorded"}}) {
    JobFlags flags;
    flags.host_time = host_time;
    flags.host_costs = {"launch=9000"};
    EXPECT_EQ(HostTimeMode(*CostOptions(flags)), mode) << host_time;
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace vrank::tools
