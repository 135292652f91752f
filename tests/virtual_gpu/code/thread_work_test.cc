// Kernels whose source says what a thread reads and writes are the oracle.

#include "virtual_gpu/code/thread_work.h"

#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "virtual_gpu/code/cubin.h"

namespace vrank::gpu {
namespace {

class ThreadWorkTest : public testing::TestWithParam<int> {
 protected:
  ThreadWorkTest() {
    const std::string name =
        VRANK_IMAGES "/work" + std::to_string(GetParam()) + ".cubin";
    std::ifstream file(name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const char* problem =
        ReadCubin(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                  static_cast<uint32_t>(GetParam()), &kernels_);
    EXPECT_EQ(problem, nullptr) << name << ": " << problem;
  }

  CubinKernels kernels_;
};

TEST_P(ThreadWorkTest, CountsWhatTheSourceSays) {
  const std::map<std::string, uint32_t> said = {
      {"copy1", 2},          {"copy2", 4},         {"copy4", 8},     {"copy8", 16},
      {"copy16", 32},        {"fma_inside", 20},   {"unrolled", 20}, {"branches", 16},
      {"through_shared", 8}, {"async_copies", 32}, {"warp_sum", 6},  {"nothing", 0}};
  for (const auto& [name, bytes] : said) {
    ASSERT_TRUE(kernels_.contains(name)) << name;
    const ThreadWork& work = kernels_.at(name).thread_work;
    EXPECT_TRUE(work.known()) << name;
    EXPECT_EQ(work.bytes, bytes) << name;
  }
}

TEST_P(ThreadWorkTest, CountsInstructionsUpToTheEnd) {
  const uint32_t nothing = kernels_.at("nothing").thread_work.instructions;
  EXPECT_GE(nothing, 1u);
  EXPECT_LE(nothing, 4u);
  // Four loads, three additions, a store, and addresses; not what fills the section.
  const uint32_t unrolled = kernels_.at("unrolled").thread_work.instructions;
  EXPECT_GE(unrolled, 9u);
  EXPECT_LE(unrolled, 32u);
}

TEST_P(ThreadWorkTest, SaysNothingWhereTheCodeDoesNotTell) {
  for (const char* name : {"loops", "adds_atomically", "reduces_atomically", "generic",
                           "calls", "multiplies", "samples"}) {
    ASSERT_TRUE(kernels_.contains(name)) << name;
    EXPECT_FALSE(kernels_.at(name).thread_work.known()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, ThreadWorkTest, testing::Values(80, 90, 100));

TEST(ThreadWorkOfBytesTest, AnyBytesGiveAnAnswer) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string code(random() % 400, 0);
    for (char& byte : code)
      byte = static_cast<char>(random());
    ReadThreadWork(code, 80 + 10 * (random() % 4));
  }
  EXPECT_FALSE(ReadThreadWork("", 90).known());
}

}  // namespace
}  // namespace vrank::gpu
