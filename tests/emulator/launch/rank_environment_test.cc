#include "emulator/launch/rank_environment.h"

#include <stdlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/launch/temporary_folder.h"

namespace vrank::emulator {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(RankEnvironmentTest, DescribesTheRanksPlace) {
  LaunchOptions options;
  options.guest_folder = "/opt/vrank";
  options.preload = {"libvrank_host.so", "libcuda.so.1"};
  options.socket_address = "vrank-1";
  options.master_port = 1234;
  options.variables = {{"WORLD_SIZE", "99"}};
  unsetenv("LD_PRELOAD");
  setenv("VRANK_TEST_OWN", "kept", 1);
  const std::vector<std::string> variables = RankEnvironment(options, {5, 8, 1, 4});
  EXPECT_THAT(variables, Contains("RANK=5"));
  EXPECT_THAT(variables, Contains("LOCAL_RANK=1"));
  EXPECT_THAT(variables, Contains("LOCAL_WORLD_SIZE=4"));
  EXPECT_THAT(variables, Contains("VRANK_RANK=5"));
  EXPECT_THAT(variables, Contains("VRANK_SOCKET=vrank-1"));
  EXPECT_THAT(variables, Contains("MASTER_PORT=1234"));
  EXPECT_THAT(variables, Contains("NCCL_COMM_ID=127.0.0.1:29500"));
  EXPECT_THAT(
      variables,
      Contains("LD_PRELOAD=/opt/vrank/libvrank_host.so:/opt/vrank/libcuda.so.1"));
  EXPECT_THAT(variables, Contains("VRANK_TEST_OWN=kept"));
  EXPECT_THAT(variables, Contains("WORLD_SIZE=99"));
  unsetenv("VRANK_TEST_OWN");
}

TEST(RankEnvironmentTest, ProgramsOfPythonExchangeTheirIds) {
  LaunchOptions options;
  unsetenv("NCCL_COMM_ID");
  const auto comm_id = testing::StartsWith("NCCL_COMM_ID=");
  for (const char* command : {"python", "/usr/bin/python3.11", "torchrun", "./train.py",
                              "build/venv/bin/python"}) {
    options.command = {command};
    EXPECT_THAT(RankEnvironment(options, {}), testing::Not(Contains(comm_id)))
        << command;
  }
  options.command = {"./pythonic/train"};
  EXPECT_THAT(RankEnvironment(options, {}), Contains(comm_id));
}

TEST(RankEnvironmentTest, KeepsAPreloadOfTheUsersBehindOurs) {
  LaunchOptions options;
  options.guest_folder = "/g";
  options.preload = {"libvrank_host.so"};
  options.variables = {};
  setenv("LD_PRELOAD", "libjemalloc.so.2", 1);
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("LD_PRELOAD=/g/libvrank_host.so:libjemalloc.so.2"));
  unsetenv("LD_PRELOAD");
}

TEST(RankEnvironmentTest, NvidiaSmiIsThatOfTheEmulatedNode) {
  LaunchOptions options;
  options.guest_folder = "/g";
  const std::string path = getenv("PATH");
  setenv("PATH", "/usr/bin", 1);
  EXPECT_THAT(RankEnvironment(options, {}), Contains("PATH=/g/bin:/usr/bin"));
  options.real_gpu = true;
  EXPECT_THAT(RankEnvironment(options, {}), Contains("PATH=/usr/bin"));
  options.real_gpu = false;
  unsetenv("PATH");
  EXPECT_THAT(RankEnvironment(options, {}), Contains("PATH=/g/bin:/bin:/usr/bin"));
  setenv("PATH", path.c_str(), 1);
}

TEST(RankEnvironmentTest, AddressSanitizerMayComeBehindOurs) {
  LaunchOptions options;
  unsetenv("ASAN_OPTIONS");
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("ASAN_OPTIONS=verify_asan_link_order=0"));
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"));
  unsetenv("ASAN_OPTIONS");
}

TEST(RankEnvironmentTest, WithARealGpuOnlyNcclIsOurs) {
  LaunchOptions options;
  options.guest_folder = "/g";
  options.real_gpu = true;
  options.real_time_origin_ns = 12345;
  unsetenv("LD_PRELOAD");
  setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  const std::vector<std::string> variables = RankEnvironment(options, {});
  EXPECT_THAT(variables, Contains("LD_PRELOAD=/g/libvrank_host.so:/g/libnccl.so.2"));
  EXPECT_THAT(variables, Contains("CUDA_VISIBLE_DEVICES=3"));
  EXPECT_THAT(variables, Contains("VRANK_REAL_GPU=12345"));
  EXPECT_THAT(variables, Contains("NVTX_INJECTION64_PATH=/g/libvrank_host.so"));
  options.real_gpu = false;
  EXPECT_THAT(RankEnvironment(options, {}),
              testing::Not(Contains("CUDA_VISIBLE_DEVICES=3")));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(RankEnvironmentTest, OnARealGpuAProfilersRangesStayItsOwn) {
  LaunchOptions options;
  options.guest_folder = "/g";
  options.real_gpu = true;
  setenv("NVTX_INJECTION64_PATH", "/profiler.so", 1);
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("NVTX_INJECTION64_PATH=/profiler.so"));
  unsetenv("NVTX_INJECTION64_PATH");
}

TEST(RankEnvironmentTest, ToolsArePreloadedBehindTheLibraries) {
  LaunchOptions options;
  options.guest_folder = "/g";
  options.preload = {"libvrank_host.so"};
  options.preload_tools = {"libtool.so"};
  unsetenv("LD_PRELOAD");
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("LD_PRELOAD=/g/libvrank_host.so:/g/libtool.so"));
  options.real_gpu = true;
  EXPECT_THAT(RankEnvironment(options, {}),
              Contains("LD_PRELOAD=/g/libvrank_host.so:/g/libnccl.so.2:/g/libtool.so"));
}

TEST(RankEnvironmentTest, ALaunchersStoreTakesAFreePortUnlessOneIsAskedFor) {
  LaunchOptions options;
  options.launcher = "torchrun";
  unsetenv("PET_MASTER_PORT");
  EXPECT_THAT(RankEnvironment(options, {}), Contains("PET_MASTER_PORT=0"));
  setenv("PET_MASTER_PORT", "4242", 1);
  EXPECT_THAT(RankEnvironment(options, {}), Contains("PET_MASTER_PORT=4242"));
  unsetenv("PET_MASTER_PORT");
  options.launcher.clear();
  EXPECT_THAT(RankEnvironment(options, {}),
              testing::Not(Contains(testing::StartsWith("PET_MASTER_PORT="))));
}

TEST(RankEnvironmentTest, NamesAMissingLibraryAndAPathThatCannotBePreloaded) {
  TemporaryFolder folder;
  LaunchOptions options;
  options.guest_folder = folder.path();
  options.preload = {"libvrank_host.so"};
  EXPECT_THAT(CheckGuestFolder(options).ToString(), HasSubstr("libvrank_host.so"));
  folder.Write("libvrank_host.so", "");
  EXPECT_TRUE(CheckGuestFolder(options).ok());
  options.guest_folder = "/opt/with space";
  EXPECT_THAT(CheckGuestFolder(options).ToString(), HasSubstr("spaces"));
}

}  // namespace
}  // namespace vrank::emulator
