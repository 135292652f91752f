// Launches over the result of a collective, of which a part is known: before it is
// here, and after.

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/virtual_gpu/core/gpu_fixture.h"
#include "tests/virtual_gpu/core/interpreted_kernel.h"
#include "virtual_gpu/code/cubin.h"
#include "virtual_gpu/core/kernel_code.h"

namespace vrank::gpu {
namespace {

using ::testing::ElementsAre;

constexpr int kElements = 8, kKnown = 4;
constexpr uint64_t kBytes = kElements * sizeof(int);
constexpr uint64_t kKnownBytes = kKnown * sizeof(int);
constexpr protocol::PayloadKey kKey{1, 0, protocol::kNone, 0};

class DeferredLaunchTest : public GpuTest {
 protected:
  DeferredLaunchTest() {
    // Of the result, numbers from 10 on are known in the first half.
    channel.on_ask = [this](const FakeChannel::Written& question) {
      Answer answer;
      answer.host = answer.end = channel.Now();
      answer.complete = true;
      if (question.kind != RecordKind::kFetchPayload)
        return answer;
      ++fetches;
      const auto fetch = question.as<protocol::FetchPayload>();
      const uint64_t end = fetch.offset + fetch.bytes;
      if (fetch.offset >= kKnownBytes) {
        answer.value = protocol::kComputedResult;
        answer.end = TimePoint::FromNanoseconds(static_cast<int64_t>(fetch.bytes));
        return answer;
      }
      int numbers[kKnown];
      for (int i = 0; i < kKnown; ++i)
        numbers[i] = first + i;
      answer.value = std::min(end, kKnownBytes) - fetch.offset;
      std::memcpy(channel.bounce_bytes.data(),
                  reinterpret_cast<unsigned char*>(numbers) + fetch.offset,
                  answer.value);
      return answer;
    };
    stream = NewStream(kStreamNonBlocking);
  }

  KernelCode* Kernel(const char* name) {
    KernelCode* const kernel = gpu->FindKernel(name);
    if (kernel->computation.code != nullptr)
      return kernel;
    SetMachineCode(name, kernel);
    return kernel;
  }

  // A collective on the stream, to which this rank has contributed what `own` holds.
  int* Result(const void* own) { return Result(own, NewMemory(kBytes)); }
  int* Result(const void* own, void* memory) {
    VirtualGpu& libraries = gpu->libraries();
    VirtualGpu::Stream found;
    EXPECT_TRUE(libraries.FindStream(stream, -1, &found, nullptr));
    libraries.Inspect(own, kBytes);
    libraries.BeginWork(found);
    libraries.SetResult(memory, kBytes, kKey, 0);
    libraries.EndWork(found);
    return static_cast<int*>(memory);
  }
  void* Known() {
    void* const memory = NewMemory(kBytes);
    EXPECT_EQ(gpu->Fill({.to = memory, .value = 3, .elements = kBytes}),
              Error::kSuccess);
    return memory;
  }

  void Launch(KernelCode* kernel, void** arguments) {
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.block[0] = 32;
    launch.stream = stream;
    launch.arguments = arguments;
    EXPECT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  }
  int* AddOne(const int* in) {
    struct {
      const int *before, *in, *behind;
      int* out;
    } pointers = {nullptr, in, nullptr, static_cast<int*>(NewMemory(kBytes))};
    int count = kElements;
    void* arguments[] = {&pointers, &count};
    Launch(Kernel("adds_one"), arguments);
    return pointers.out;
  }
  // Zeros, but for a one at the place that *at says.
  int* Mark(const int* at) {
    auto* out = static_cast<int*>(NewMemory(kBytes));
    EXPECT_EQ(gpu->Fill({.to = out, .value = 0, .elements = kBytes}), Error::kSuccess);
    void* arguments[] = {&at, &out};
    Launch(Kernel("marks"), arguments);
    return out;
  }
  std::vector<int> Read(const int* from) {
    std::vector<int> values(kElements);
    EXPECT_EQ(CopyBytes(values.data(), from, kBytes), Error::kSuccess);
    return values;
  }
  void Wait() { ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess); }

  void* stream = nullptr;
  int first = 10, fetches = 0;
};

TEST_F(DeferredLaunchTest, KnownPartsStayKnown) {
  const int* const added = AddOne(AddOne(Result(Known())));
  EXPECT_EQ(fetches, 0) << "a launch waits for no other rank";
  EXPECT_THAT(Read(added), ElementsAre(12, 13, 14, 15, 0, 0, 0, 0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), kBytes - kKnownBytes);
  EXPECT_EQ(Read(added)[0], 12);
}

TEST_F(DeferredLaunchTest, WhatAWaitHasCoveredDecides) {
  first = 2;
  const int* const early = Result(Known());
  EXPECT_THAT(Read(Mark(early)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  const uint64_t lost = channel.Lost(LossId::kComputedToHost);
  EXPECT_GT(lost, 0u);
  const int* const added = AddOne(early);
  Wait();
  EXPECT_THAT(Read(Mark(early)), ElementsAre(0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(Read(Mark(added)), ElementsAre(0, 0, 0, 1, 0, 0, 0, 0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), lost);
}

TEST_F(DeferredLaunchTest, WaitsForOtherStreamsDoNotCoverIt) {
  first = 2;
  const int* const early = Result(Known());
  void* const other = NewStream(kStreamNonBlocking);
  ASSERT_EQ(GpuTest::Launch(other), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(other), Error::kSuccess);
  Mark(early);
  EXPECT_EQ(fetches, 0);
}

// After a wait the part that nobody knows is what a kernel would have computed.
TEST_F(DeferredLaunchTest, TheRestIsComputedOnceItIsHere) {
  const int* const result = Result(Known());
  Wait();
  Mark(result + kKnown);
  EXPECT_THAT(Read(Mark(result + kKnown)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_GT(channel.Lost(LossId::kComputedToHost), 0u);
  EXPECT_THAT(Read(AddOne(result)), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0))
      << "of a launch that can be computed now, all input has to be known";
}

// Gradients: nothing of theirs will be known, so that nothing is kept for them.
TEST_F(DeferredLaunchTest, WhatLiesBesideDoesNotMatter) {
  auto* const memory = static_cast<unsigned char*>(NewMemory(2 * kBytes));
  Result(NewMemory(kBytes), memory + kBytes);  // unknown on this rank
  const int* const added = AddOne(Result(Known(), memory));
  EXPECT_THAT(Read(added), ElementsAre(11, 12, 13, 14, 0, 0, 0, 0));
}

TEST_F(DeferredLaunchTest, WhereThisRankKnowsNothingNothingIsTried) {
  const int* const result = Result(NewMemory(kBytes));
  const int* const added = AddOne(result);
  Wait();
  Mark(result);
  EXPECT_EQ(fetches, 0);
  EXPECT_THAT(Read(added), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(fetches, 0);
}

}  // namespace
}  // namespace vrank::gpu
