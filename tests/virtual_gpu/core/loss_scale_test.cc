#include "virtual_gpu/core/loss_scale.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr char kName[] = "_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi";

TEST(LossScaleTest, GrowsAfterTheIntervalAndBacksOffAtOnce) {
  EXPECT_TRUE(UpdatesLossScale(kName));
  EXPECT_FALSE(UpdatesLossScale("_Z28amp_update_scale_cuda_kernelPfPiPKfddi"));
  const LossScaleRule rule{2, 0.5, 3};
  LossScale scale{8, 0};
  for (const int tracker : {1, 2}) {
    scale = UpdateLossScale(scale, 0, rule);
    EXPECT_EQ(scale.scale, 8);
    EXPECT_EQ(scale.growth_tracker, tracker);
  }
  scale = UpdateLossScale(scale, 0, rule);
  EXPECT_EQ(scale.scale, 16);
  EXPECT_EQ(scale.growth_tracker, 0);
  scale = UpdateLossScale({16, 2}, 1, rule);
  EXPECT_EQ(scale.scale, 8);
  EXPECT_EQ(scale.growth_tracker, 0);
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(UpdateLossScale({kMost, 2}, 0, rule).scale, kMost);
}

class LossScaleValuesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    block = static_cast<char*>(NewMemory(4096));
    scale = block + 512;
    tracker = block + 1024;
    found_inf = block + 1536;
    const float start = 8;
    const int32_t none = 0;
    const float inf = 0;
    ASSERT_EQ(CopyBytes(scale, &start, sizeof start), Error::kSuccess);
    ASSERT_EQ(CopyBytes(tracker, &none, sizeof none), Error::kSuccess);
    ASSERT_EQ(CopyBytes(found_inf, &inf, sizeof inf), Error::kSuccess);
  }
  Error Update() {
    double growth = 2, backoff = 0.5;
    int32_t interval = 2;
    void* arguments[] = {&scale, &tracker, &found_inf, &growth, &backoff, &interval};
    KernelLaunch launch;
    launch.kernel = gpu->FindKernel(kName);
    // As the kernel's machine code tells.
    KernelSignature& signature = launch.kernel->signature;
    signature.complete = true;
    signature.count = signature.known = 6;
    signature.parameters.resize(6);
    launch.arguments = arguments;
    return gpu->LaunchKernel(launch);
  }
  template <typename Number>
  Number Fetch(const void* from) {
    Number number{};
    EXPECT_EQ(CopyBytes(&number, from, sizeof number), Error::kSuccess);
    return number;
  }

  char* block = nullptr;
  void *scale = nullptr, *tracker = nullptr, *found_inf = nullptr;
};

TEST_F(LossScaleValuesTest, OfKnownNumbersIsKnown) {
  ASSERT_EQ(Update(), Error::kSuccess);
  ASSERT_EQ(Update(), Error::kSuccess);
  EXPECT_EQ(Fetch<float>(scale), 16);
  EXPECT_EQ(Fetch<int32_t>(tracker), 0);
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 0u);
}

TEST_F(LossScaleValuesTest, GoesOnThoughKernelsGotPointersToWhatLiesBefore) {
  for (const float expected : {8, 16, 16, 32}) {
    ASSERT_EQ(Launch(nullptr, nullptr, block), Error::kSuccess);
    ASSERT_EQ(Update(), Error::kSuccess);
    EXPECT_EQ(Fetch<float>(scale), expected);
    ASSERT_EQ(Launch(nullptr, nullptr, block), Error::kSuccess);
    EXPECT_EQ(Fetch<float>(scale), expected);
  }
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 8 * sizeof(float));
}

TEST_F(LossScaleValuesTest, IsUnknownWhereAnotherKernelGotAPointerToIt) {
  ASSERT_EQ(Update(), Error::kSuccess);
  ASSERT_EQ(Launch(nullptr, nullptr, scale), Error::kSuccess);
  EXPECT_EQ(Fetch<float>(scale), 0);
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), sizeof(float));
}

}  // namespace
}  // namespace vrank::gpu
