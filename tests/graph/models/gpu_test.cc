// Loading of GPU descriptions.

#include "graph/models/gpu.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

TEST(GpuTest, LoadsEveryDescriptionByAlias) {
  for (const char* alias : {"a100", "h100", "h200", "b200"}) {
    const auto gpu = LoadGpu(alias, VRANK_DATA_DIR);
    ASSERT_TRUE(gpu.ok()) << gpu.status().ToString();
    EXPECT_GT(gpu->properties.memory_bytes, uint64_t{80} * 1000 * 1000 * 1000);
  }
}

TEST(GpuTest, SaysOfABinaryThatItIsNoDescription) {
  const std::string path = testing::TempDir() + "/gpu_binary";
  std::ofstream(path, std::ios::binary) << std::string(
      "\x7f"
      "ELF\0\1",
      6);
  EXPECT_THAT(LoadGpu(path, VRANK_DATA_DIR).status().ToString(),
              HasSubstr("it is no description file"));
  std::remove(path.c_str());
}

TEST(GpuTest, FillsWhatGuestsAreTold) {
  const auto gpu = LoadGpu("h100-sxm5-80gb", VRANK_DATA_DIR);
  ASSERT_TRUE(gpu.ok()) << gpu.status().ToString();
  EXPECT_EQ(gpu->short_name, "h100-sxm5-80gb");
  EXPECT_STREQ(gpu->properties.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpu->properties.multiprocessors, 132u);
  EXPECT_EQ(gpu->properties.compute_major, 9u);
  EXPECT_EQ(gpu->properties.multicast, 1u);
}

// The rates of a file must follow from its own clock and unit counts, so that a slip of
// the decimal point shows. fp32: 2 operations x lanes x multiprocessors x clock.
TEST(GpuTest, RatesAgreeWithClocks) {
  const std::pair<const char*, double> lanes[] = {
      {"a100", 64}, {"h100", 128}, {"h200", 128}, {"b200", 128}};
  for (const auto& [alias, lanes_per_multiprocessor] : lanes) {
    const auto gpu = LoadGpu(alias, VRANK_DATA_DIR);
    ASSERT_TRUE(gpu.ok());
    const GpuDescription& d = gpu->description;
    const double fp32 =
        2 * lanes_per_multiprocessor * d.multiprocessors() * d.clock_khz() * 1e3 / 1e12;
    EXPECT_NEAR(d.vector().fp32(), fp32, 0.02 * fp32) << alias;
    const double gbs = 2.0 * d.memory_clock_khz() * 1e3 * d.memory_bus_bits() / 8 / 1e9;
    EXPECT_NEAR(d.memory_gbs(), gbs, 0.07 * gbs) << alias;
  }
}

TEST(GpuTest, NamesWhatThereIsWhenTheNameIsUnknown) {
  const auto gpu = LoadGpu("h900", VRANK_DATA_DIR);
  ASSERT_FALSE(gpu.ok());
  EXPECT_THAT(gpu.status().ToString(), HasSubstr("a100-sxm4-80gb"));
}

TEST(GpuTest, ANameBelongsToOneFile) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "gpu_names";
  fs::create_directories(folder / "gpus");
  const fs::path h100 = fs::path(VRANK_DATA_DIR) / "gpus" / "h100-sxm5-80gb.textproto";
  const auto copy = [&](const std::string& name, const std::string& more = "") {
    const std::string path = (folder / name).string();
    fs::copy_file(h100, path, fs::copy_options::overwrite_existing);
    std::ofstream(path, std::ios::app) << more;
    return path;
  };
  // The same figures under the same name are the same GPU; others are not.
  EXPECT_TRUE(LoadGpu(copy("h100-sxm5-80gb.textproto"), VRANK_DATA_DIR).ok());
  EXPECT_TRUE(LoadGpu(copy("mine.textproto"), VRANK_DATA_DIR).ok());
  for (const char* name : {"h100-sxm5-80gb.textproto", "h100.textproto"})
    EXPECT_THAT(
        LoadGpu(copy(name, "alias: \"mine\""), VRANK_DATA_DIR).status().ToString(),
        HasSubstr("rename the file"));
  copy("gpus/first.textproto");
  EXPECT_TRUE(LoadGpu("h100", folder.string()).ok());
  copy("gpus/second.textproto");
  EXPECT_THAT(
      LoadGpu("first", folder.string()).status().ToString(),
      testing::AllOf(HasSubstr("first.textproto"), HasSubstr("second.textproto")));
  fs::remove_all(folder);
}

TEST(GpuTest, ReportsAllProblemsAtOnce) {
  const std::string path = ::testing::TempDir() + "/broken.textproto";
  std::ofstream(path) << "name: \"x\" compute_major: 9 l2_bytes: 1";
  const auto gpu = LoadGpu(path, VRANK_DATA_DIR);
  ASSERT_FALSE(gpu.ok());
  for (const char* field : {"memory_bytes", "multiprocessors", "memory_gbs",
                            "efficiency.gemm", "gemm_overhead_ns"}) {
    EXPECT_THAT(gpu.status().ToString(), HasSubstr(field));
  }
  std::remove(path.c_str());
}

TEST(GpuTest, ReportsSyntaxErrorsWithTheirPlaces) {
  const std::string path = ::testing::TempDir() + "/syntax.textproto";
  std::ofstream(path) << "name: \"x\"\nmemory_byte: 9\n";
  const auto gpu = LoadGpu(path, VRANK_DATA_DIR);
  ASSERT_FALSE(gpu.ok());
  EXPECT_THAT(gpu.status().ToString(), HasSubstr("2:"));
  EXPECT_THAT(gpu.status().ToString(), HasSubstr("memory_byte"));
  std::remove(path.c_str());
}

TEST(GpuTest, SaysThatAFileIsMissing) {
  EXPECT_EQ(LoadGpu("/no/such.textproto", VRANK_DATA_DIR).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace vrank::graph
