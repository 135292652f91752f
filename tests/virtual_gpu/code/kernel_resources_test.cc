// What is read of kernels' limits, against the source (limits.cu) and what ptxas says
// while it compiles (-v).

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "virtual_gpu/code/cubin.h"

namespace vrank::gpu {
namespace {

struct Said {
  uint32_t registers = 0, shared = 0, stack = 0, barriers = 0;
};

uint32_t NumberBefore(const std::string& line, const std::string& mark) {
  const size_t at = line.find(mark);
  const size_t begin =
      at == std::string::npos ? at : line.find_last_not_of("0123456789", at - 1);
  return begin == std::string::npos
             ? 0
             : static_cast<uint32_t>(std::strtoul(&line[begin + 1], nullptr, 10));
}

// "Compiling entry function 'NAME' for 'sm_90'", then lines with its numbers.
std::map<std::string, Said> WhatPtxasSaid(const std::string& name) {
  std::map<std::string, Said> kernels;
  std::ifstream file(std::string(VRANK_IMAGES "/") + name);
  EXPECT_TRUE(file) << name;
  Said* said = nullptr;
  for (std::string line; std::getline(file, line);) {
    const std::string mark = "Compiling entry function '";
    if (const size_t at = line.find(mark); at != std::string::npos) {
      const size_t begin = at + mark.size();
      said = &kernels[line.substr(begin, line.find('\'', begin) - begin)];
    } else if (said != nullptr &&
               line.find(" bytes stack frame") != std::string::npos) {
      said->stack = NumberBefore(line, " bytes stack frame");
    } else if (said != nullptr && line.find(" registers") != std::string::npos) {
      said->registers = NumberBefore(line, " registers");
      said->barriers = NumberBefore(line, " barriers");
      said->shared = NumberBefore(line, " bytes smem");
    }
  }
  return kernels;
}

class KernelResourcesTest : public testing::TestWithParam<int> {
 protected:
  KernelResourcesTest() { Read(static_cast<uint32_t>(GetParam())); }

  void Read(uint32_t architecture) {
    kernels_.clear();
    const std::string name =
        VRANK_IMAGES "/limits" + std::to_string(GetParam()) + ".cubin";
    std::ifstream file(name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const char* problem =
        ReadCubin(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                  architecture, &kernels_);
    EXPECT_EQ(problem, nullptr) << name << ": " << problem;
  }
  const KernelResources& Of(const char* name) { return kernels_[name].resources; }

  CubinKernels kernels_;
};

TEST_P(KernelResourcesTest, AgreeWithPtxas) {
  const auto said = WhatPtxasSaid("limits" + std::to_string(GetParam()) + ".txt");
  ASSERT_EQ(said.size(), GetParam() >= 90 ? 9u : 6u);
  ASSERT_EQ(kernels_.size(), said.size());
  for (const auto& [name, numbers] : said) {
    const KernelResources& resources = Of(name.c_str());
    EXPECT_TRUE(resources.known) << name;
    EXPECT_EQ(resources.registers, numbers.registers) << name;
    EXPECT_EQ(resources.shared_bytes, numbers.shared) << name;
    EXPECT_EQ(resources.local_bytes, numbers.stack) << name;
    EXPECT_EQ(resources.barriers, numbers.barriers) << name;
  }
  EXPECT_GT(Of("many_registers").registers, 40u);
  EXPECT_EQ(Of("fixed_shared").shared_bytes, 12000u);
}

TEST_P(KernelResourcesTest, AgreeWithTheSource) {
  EXPECT_EQ(Of("plain").most_threads, 0u);
  EXPECT_EQ(Of("plain").block[0], 0u);
  EXPECT_EQ(Of("plain").cluster[0], 0u);
  EXPECT_EQ(Of("bounded").most_threads, 256u);
  if (GetParam() < 90)
    return;
  EXPECT_EQ(Of("bounded_cluster").most_threads, 192u);
  EXPECT_EQ(Of("bounded_cluster").most_cluster, 4u);
  EXPECT_EQ(Of("cluster").cluster[0], 2u);
  EXPECT_EQ(Of("cluster").cluster[2], 1u);
  EXPECT_FALSE(Of("cluster").blocks_are_clusters);
  EXPECT_TRUE(Of("grid_of_clusters").blocks_are_clusters);
  EXPECT_EQ(Of("grid_of_clusters").block[0], 64u);
  EXPECT_EQ(Of("grid_of_clusters").block[1], 2u);
  EXPECT_EQ(Of("grid_of_clusters").cluster[0], 2u);
}

// Registers depend on the compiler's target; bounds are the source's.
TEST_P(KernelResourcesTest, RegistersAreKnownForTheGpuOnly) {
  Read(75);
  EXPECT_FALSE(Of("plain").known);
  EXPECT_EQ(Of("bounded").most_threads, 256u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, KernelResourcesTest,
                         testing::Values(80, 90, 100));

}  // namespace
}  // namespace vrank::gpu
