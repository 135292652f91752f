// Which launches are computed: a kernel of nvcc's, over known and unknown memory.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/virtual_gpu/core/gpu_fixture.h"
#include "tests/virtual_gpu/core/interpreted_kernel.h"
#include "virtual_gpu/code/cubin.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

constexpr int kElements = 8;
constexpr uint64_t kBytes = kElements * sizeof(int);

class LaunchInterpreterTest : public GpuTest {
 protected:
  LaunchInterpreterTest() { kernel_ = Kernel("adds_one"); }

  KernelCode* Kernel(const char* name) {
    KernelCode* const kernel = gpu->FindKernel(name);
    SetMachineCode(name, kernel);
    return kernel;
  }

  int* Known(int first) {
    std::vector<int> values;
    for (int i = 0; i < kElements; ++i)
      values.push_back(first + i);
    auto* const memory = static_cast<int*>(NewMemory(kBytes));
    EXPECT_EQ(CopyBytes(memory, values.data(), kBytes), Error::kSuccess);
    return memory;
  }
  int* Unknown() { return static_cast<int*>(NewMemory(kBytes)); }

  // The first element of the result; 0 where it is not computed.
  int Launched(const int* before, const int* in, const int* behind) {
    struct {
      const int *before, *in, *behind;
      int* out;
    } pointers = {before, in, behind, Unknown()};
    int count = kElements;
    void* arguments[] = {&pointers, &count};
    KernelLaunch launch;
    launch.kernel = kernel_;
    launch.block[0] = 32;
    launch.arguments = arguments;
    EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
    int result[kElements] = {};
    EXPECT_EQ(CopyBytes(result, pointers.out, kBytes), Error::kSuccess);
    return result[0];
  }

  KernelCode* kernel_ = nullptr;
};

TEST_F(LaunchInterpreterTest, ComputesOverKnownMemory) {
  EXPECT_EQ(Launched(nullptr, Known(41), nullptr), 42);
  EXPECT_EQ(Launched(nullptr, Unknown(), nullptr), 0);
  EXPECT_EQ(Launched(nullptr, Known(6), nullptr), 7);
}

// The unused parts had the address of unknown memory once. They have nothing, or the
// address of other unknown memory, beside a known input.
TEST_F(LaunchInterpreterTest, IsNotMisledByOldAddresses) {
  const int* const unknown = Unknown();
  EXPECT_EQ(Launched(unknown, unknown, unknown), 0);
  EXPECT_EQ(Launched(nullptr, Known(41), unknown), 42);
  EXPECT_EQ(Launched(unknown, Known(6), unknown), 7);
  EXPECT_EQ(Launched(unknown, unknown, unknown), 0);
  EXPECT_EQ(Launched(Unknown(), Known(7), Unknown()), 8);
}

// As on a GPU: the host finds out at a wait that covers the kernel, and nothing works
// after that.
TEST_F(LaunchInterpreterTest, FailsAtTheWaitBehindAFailedAssertion) {
  KernelCode* const looks_up = Kernel("looks_up");
  void* const stream = NewStream(kStreamNonBlocking);
  void* const other = NewStream(kStreamNonBlocking);
  const auto launch = [&](const int* at, int n) {
    int* out = Unknown();
    void* arguments[] = {&at, &out, &n};
    KernelLaunch one;
    one.kernel = looks_up;
    one.block[0] = kElements;
    one.stream = stream;
    one.arguments = arguments;
    return gpu->LaunchKernel(one);
  };
  const int* const at = Known(0);
  ASSERT_EQ(launch(at, kElements), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  ASSERT_EQ(launch(Unknown(), 3), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(launch(at, kElements - 1), Error::kSuccess);
  ASSERT_EQ(launch(at, kElements), Error::kSuccess);
  ASSERT_EQ(GpuTest::Launch(other), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(other), Error::kSuccess);
  EXPECT_EQ(gpu->SynchronizeStream(stream), Error::kAssert);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::MatchesRegex(".*interpreted.cu:[0-9]+: void looks_up.*: block: "
                              ".0,0,0., thread: .7,0,0. Assertion `at.i. < n` "
                              "failed.\n"));
  EXPECT_EQ(gpu->SynchronizeStream(other), Error::kAssert);
  void* memory = nullptr;
  EXPECT_EQ(gpu->Allocate(8, &memory), Error::kAssert);
}

// Labels are known, scores never are.
TEST_F(LaunchInterpreterTest, FailsByWhatIsKnownBesideUnknownInput) {
  KernelCode* const takes = Kernel("takes");
  const auto launch = [&](const int* scores, const int* at, int n) {
    int* out = Unknown();
    void* arguments[] = {&scores, &at, &out, &n};
    KernelLaunch one;
    one.kernel = takes;
    one.block[0] = kElements;
    one.arguments = arguments;
    return gpu->LaunchKernel(one);
  };
  const int *const scores = Unknown(), *const at = Known(0);
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(launch(scores, at, kElements), Error::kSuccess);
    ASSERT_EQ(launch(scores, scores, kElements), Error::kSuccess);
    ASSERT_EQ(gpu->SynchronizeStream(nullptr), Error::kSuccess);
  }
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(launch(scores, at, kElements - 1), Error::kSuccess);
  EXPECT_EQ(gpu->SynchronizeStream(nullptr), Error::kAssert);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::HasSubstr("thread: [7,0,0] Assertion `place < n` failed.\n"));
}

// What was read last tells which input is unknown: not tried again, and so not counted.
TEST_F(LaunchInterpreterTest, TriesNoKnownFailureAgain) {
  EXPECT_EQ(Launched(nullptr, Unknown(), nullptr), 0);
  EXPECT_EQ(kernel_->computation.unknown_input_at, 8);
}

}  // namespace
}  // namespace vrank::gpu
