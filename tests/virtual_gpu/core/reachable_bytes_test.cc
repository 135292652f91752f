// How much memory a launch can reach, where its machine code does not tell what it does
// (protocol::Kernel::reachable_bytes).

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class ReachableBytesTest : public GpuTest {
 protected:
  uint64_t LatestReach() {
    const auto kernels = channel.records(RecordKind::kKernel);
    EXPECT_FALSE(kernels.empty());
    return kernels.empty() ? 0 : kernels.back().as<protocol::Kernel>().reachable_bytes;
  }
  // Of kernel(const float* in, float* out).
  uint64_t ReachOf(const void* in, const void* out) {
    EXPECT_EQ(Launch(nullptr, in, const_cast<void*>(out)), Error::kSuccess);
    return LatestReach();
  }
  char* NewBytes(uint64_t bytes) { return static_cast<char*>(NewMemory(bytes)); }
};

TEST_F(ReachableBytesTest, EndWithTheMemoryThatAPointerIsIn) {
  char* const in = NewBytes(10 * kMiB);
  char* const out = NewBytes(3 * kMiB);
  NewBytes(40 * kMiB);
  EXPECT_EQ(ReachOf(in, out), 13 * kMiB);
  EXPECT_EQ(ReachOf(in + 4 * kMiB, out), 9 * kMiB);
  EXPECT_EQ(ReachOf(nullptr, out), 3 * kMiB);
  int on_host = 0;
  EXPECT_EQ(ReachOf(&on_host, out), 3 * kMiB);
}

TEST_F(ReachableBytesTest, CountOnce) {
  char* const both = NewBytes(10 * kMiB);
  EXPECT_EQ(ReachOf(both, both), 10 * kMiB);
  EXPECT_EQ(ReachOf(both + kMiB, both + 4 * kMiB), 9 * kMiB);
  EXPECT_EQ(ReachOf(both + 4 * kMiB, both + kMiB), 9 * kMiB);
}

TEST_F(ReachableBytesTest, EndWhereNothingIsMapped) {
  uint64_t base = 0;
  ASSERT_EQ(gpu->virtual_memory().Reserve(64 * kMiB, 0, 0, &base), Error::kSuccess);
  const auto map = [&](uint64_t offset) {
    uint64_t handle = 0;
    ASSERT_EQ(gpu->virtual_memory().Create(0, 2 * kMiB, &handle), Error::kSuccess);
    ASSERT_EQ(gpu->virtual_memory().Map(base + offset, 2 * kMiB, handle),
              Error::kSuccess);
  };
  const auto reach_from = [&](uint64_t offset) {
    return ReachOf(nullptr, reinterpret_cast<void*>(base + offset));
  };
  map(0);
  map(2 * kMiB);
  map(8 * kMiB);
  EXPECT_EQ(reach_from(0), 4 * kMiB);
  EXPECT_EQ(reach_from(3 * kMiB), kMiB);
  EXPECT_EQ(reach_from(8 * kMiB), 2 * kMiB);
  EXPECT_EQ(reach_from(6 * kMiB), 0u);
  ASSERT_EQ(gpu->virtual_memory().Unmap(base + 2 * kMiB, 2 * kMiB), Error::kSuccess);
  EXPECT_EQ(reach_from(0), 2 * kMiB);
}

TEST_F(ReachableBytesTest, AreAllOfTheProgramWhereArgumentsAreNotKnown) {
  char* const first = NewBytes(10 * kMiB);
  NewBytes(6 * kMiB);
  KernelLaunch launch;
  launch.kernel = gpu->FindKernel("c_kernel");
  ASSERT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  EXPECT_EQ(LatestReach(), 16 * kMiB);
  ASSERT_EQ(gpu->Free(first), Error::kSuccess);
  ASSERT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  EXPECT_EQ(LatestReach(), 6 * kMiB);
}

TEST_F(ReachableBytesTest, AreNotAskedWhereTheCodeTellsTheWork) {
  gpu->FindKernel("_Z6kernelPKfPf")->thread_work = {.instructions = 20, .bytes = 8};
  EXPECT_EQ(ReachOf(nullptr, NewBytes(10 * kMiB)), 0u);
}

}  // namespace
}  // namespace vrank::gpu
