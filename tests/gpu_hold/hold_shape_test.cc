#include "gpu_hold/hold_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_hold/hold_driver.h"

namespace vrank::hold {
namespace {

HoldShape Of(HoldProtocol protocol, uint64_t bytes, uint32_t channels = 16,
             uint32_t ranks = 8, uint32_t major = 9) {
  return ShapeOf({protocol, bytes, ranks, channels, major});
}

TEST(HoldShapeTest, LargeOperationsTakeAllChannels) {
  const HoldShape shape = Of(HoldProtocol::kSimple, 1 << 30);
  EXPECT_EQ(shape.ctas, 16u);
  EXPECT_EQ(shape.threads, 512u + 32);
  EXPECT_EQ(shape.cluster, 4u);
  EXPECT_EQ(Of(HoldProtocol::kLl128, 1 << 30).threads, 640u);
  EXPECT_EQ(Of(HoldProtocol::kSimple, 1 << 30, 1000).ctas, 64u);
}

// Expectation: a channel of Simple wants 512 threads x 64 bytes = 32 KiB.
TEST(HoldShapeTest, SmallOperationsTakeFewer) {
  EXPECT_EQ(Of(HoldProtocol::kSimple, 5 * 32768).ctas, 5u);
  EXPECT_EQ(Of(HoldProtocol::kSimple, 5 * 32768 - 1).ctas, 4u);
  // LL: 512 x 8 x ranks.
  EXPECT_EQ(Of(HoldProtocol::kLl, 3 * 512 * 8 * 8).ctas, 3u);
  EXPECT_EQ(Of(HoldProtocol::kLl, 1).ctas, 1u);
  EXPECT_EQ(Of(HoldProtocol::kLl, 1).threads, 96u);
}

TEST(HoldShapeTest, ClustersNeedHopperAndAFittingGrid) {
  EXPECT_EQ(Of(HoldProtocol::kSimple, 1 << 30, 16, 8, 8).cluster, 1u);
  EXPECT_EQ(Of(HoldProtocol::kSimple, 1 << 30, 6).cluster, 1u);
}

TEST(HoldShapeTest, TheImageHasAKernelPerOperation) {
  if (HoldKernelImage().empty())
    GTEST_SKIP() << "this build had no nvcc";
  for (uint32_t i = 0; i < static_cast<uint32_t>(HoldOperation::kCount); ++i) {
    const char* const name = KernelName(static_cast<HoldOperation>(i));
    EXPECT_NE(HoldKernelImage().find(name), std::string_view::npos) << name;
  }
}

}  // namespace
}  // namespace vrank::hold
