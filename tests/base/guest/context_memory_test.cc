#include "base/guest/context_memory.h"

#include <gtest/gtest.h>

namespace vrank {
namespace {

// As nvcc's objects register their kernels: three wrappers of 24 bytes in this program.
[[gnu::used, gnu::section(".nvFatBinSegment")]] char wrappers[3 * 24];

TEST(ContextMemoryTest, CodeIsCountedByFatBinaries) {
  constexpr uint64_t kMiB = 1 << 20;
  EXPECT_EQ(CodeBytes(449), 92 * kMiB);
  EXPECT_EQ(CodeBytes(0), 0u);
  EXPECT_EQ(CodeBytes(1), 0u);
  EXPECT_EQ(CodeBytes(10), 2 * kMiB);
}

TEST(ContextMemoryTest, FindsTheFatBinariesOfAFile) {
  EXPECT_EQ(FatBinariesOf("/proc/self/exe"), 3u);
  EXPECT_EQ(FatBinariesOf("/proc/self/maps"), 0u);
  EXPECT_EQ(FatBinariesOf("/nowhere"), 0u);
}

TEST(ContextMemoryTest, OnlyObjectsWithTheSharedRuntimeCount) {
  EXPECT_EQ(LoadedCodeBytes(), 0u);
}

TEST(ContextMemoryTest, PytorchsStreamsTakeWhatWasMeasured) {
  EXPECT_EQ(128 * kStreamBytes, uint64_t{70} << 20);
}

}  // namespace
}  // namespace vrank
