// vrank's own descriptions of kernels come behind those that are given.

#include "tools/kernel_descriptions.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tools/job_flags.h"
#include "tools/program_fingerprint.h"

namespace vrank::tools {
namespace {

// torch.full of floats.
constexpr char kFill[] =
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcL"
    "m1EEEEviT0_T1_";

class KernelDescriptionsTest : public testing::Test {
 protected:
  KernelDescriptionsTest()
      : folder_(fmt::format("{}/descriptions_{}", testing::TempDir(), getpid())),
        installation_(*FindInstallation()),
        own_(installation_.data_dir + "/kernels/pytorch.textproto") {
    std::filesystem::create_directories(folder_);
  }
  ~KernelDescriptionsTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text) {
    const std::string path = folder_ + "/costs.textproto";
    std::ofstream(path) << text;
    return path;
  }

  const std::string folder_;
  const Installation installation_;
  const std::string own_;
};

TEST_F(KernelDescriptionsTest, KnowsPyTorchsKernelsUnasked) {
  const auto costs = ReadKernelCosts({}, installation_);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_NE(costs->Find(kFill), nullptr);
  EXPECT_EQ(costs->Find("_Z5scalePfif"), nullptr);
}

TEST_F(KernelDescriptionsTest, TakesWhatIsGivenFirst) {
  const auto own = ReadKernelCosts({own_}, installation_);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_GT(own->Find(kFill)->index, 0u);  // not the file's first
  const auto given = ReadKernelCosts(
      {Write(R"(kernel { regex: ".*FillFunctor<float>.*" bytes: "1" flops: "0" })")},
      installation_);
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->Find(kFill)->index, 0u);
}

TEST_F(KernelDescriptionsTest, DoNotCountAsStatedCosts) {
  JobFlags flags;
  flags.kernels = {own_};
  EXPECT_EQ(*CostOptions(flags), "");
  flags.kernels.push_back(Write("# none\n"));
  EXPECT_EQ(CostOptions(flags)->rfind("costs.textproto:", 0), 0u);
}

}  // namespace
}  // namespace vrank::tools
