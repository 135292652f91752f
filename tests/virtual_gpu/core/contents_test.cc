// What device memory holds, as copies to the host and libnccl see it.

#include <cstring>
#include <numeric>

#include "tests/virtual_gpu/core/gpu_fixture.h"

namespace vrank::gpu {
namespace {

using protocol::PayloadState;
using ::testing::Each;

constexpr protocol::PayloadKey kKey{
    .communicator = 3, .sequence = 5, .peer = protocol::kNone, .is_transfer = 0};

class ContentsTest : public GpuTest {
 protected:
  std::vector<unsigned char> Fetch(const void* from, uint64_t bytes) {
    std::vector<unsigned char> host(bytes, 0xee);
    EXPECT_EQ(CopyBytes(host.data(), from, bytes), Error::kSuccess);
    return host;
  }
  std::vector<unsigned char> Count(uint64_t bytes) {
    std::vector<unsigned char> host(bytes);
    std::iota(host.begin(), host.end(), static_cast<unsigned char>(1));
    return host;
  }
  // Answers fetches from a result whose byte i is i + 100.
  void ServeResult() {
    channel.on_ask = [this](const FakeChannel::Written& question) {
      Answer answer;
      answer.host = answer.end = channel.Now();
      answer.complete = true;
      if (question.kind == RecordKind::kFetchPayload) {
        auto fetch = question.as<protocol::FetchPayload>();
        for (uint64_t i = 0; i < fetch.bytes; ++i)
          channel.bounce_bytes[i] = static_cast<unsigned char>(fetch.offset + i + 100);
        answer.value = fetch.bytes;
      }
      return answer;
    };
  }
  void* NewLocked(uint64_t bytes) {
    void* address = nullptr;
    EXPECT_EQ(gpu->AllocateHost(bytes, 0, &address), Error::kSuccess);
    return address;
  }
};

TEST_F(ContentsTest, BytesGoThereAndBack) {
  char* device = static_cast<char*>(NewMemory(1 << 20));
  const auto sent = Count(1000);
  ASSERT_EQ(CopyBytes(device + 5, sent.data(), 1000), Error::kSuccess);
  EXPECT_EQ(Fetch(device + 5, 1000), sent);
  char* other = static_cast<char*>(NewMemory(1 << 20));
  ASSERT_EQ(CopyBytes(other, device + 5, 1000), Error::kSuccess);
  EXPECT_EQ(Fetch(other, 1000), sent);
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 0u);
}

// An allocator of the program's own splits what CUDA gave it: a kernel that gets an
// address in one block has not written the next one.
TEST_F(ContentsTest, AKernelStaysInTheBlockOfItsAddress) {
  char* device = static_cast<char*>(NewMemory(1 << 20));
  const auto sent = Count(200);
  const auto launched_with = [&](uint64_t offset) {
    EXPECT_EQ(CopyBytes(device + 4096, sent.data(), 200), Error::kSuccess);
    EXPECT_EQ(Launch(nullptr, device, device + offset), Error::kSuccess);
    return Fetch(device + 4096, 200) == sent;
  };
  EXPECT_FALSE(launched_with(512));  // no block: it may write to the allocation's end
  gpu->libraries().SetBlock(device, 1024);
  gpu->libraries().SetBlock(device + 1024, 3072);
  EXPECT_TRUE(launched_with(512));
  EXPECT_TRUE(launched_with(1024));
  EXPECT_TRUE(launched_with(4095));
  EXPECT_TRUE(launched_with(4096));  // in no block: an old address
  gpu->libraries().SetBlock(device + 4096, 1024);
  EXPECT_FALSE(launched_with(4096));  // in the same one
  EXPECT_TRUE(launched_with(1024));
  gpu->libraries().SetBlock(device + 1024, -3072);
  EXPECT_TRUE(launched_with(1024));  // given back
  // A block that overlaps others takes their place.
  gpu->libraries().SetBlock(device + 512, 8192);
  EXPECT_FALSE(launched_with(512));
  EXPECT_TRUE(launched_with(0));  // the first block is gone
  // Where not all blocks are known, an address may be of one of the others.
  gpu->libraries().SetBlock(device + 512, -8192);
  gpu->libraries().SetBlock(device, 2 << 20);
  EXPECT_FALSE(launched_with(0));
}

TEST_F(ContentsTest, BlocksOfFreedMemoryAreForgotten) {
  char* device = static_cast<char*>(NewMemory(1 << 20));
  gpu->libraries().SetBlock(device, 1024);
  ASSERT_EQ(gpu->Free(device), Error::kSuccess);
  char* again = static_cast<char*>(NewMemory(1 << 20));
  ASSERT_EQ(again, device);
  const auto sent = Count(200);
  ASSERT_EQ(CopyBytes(again + 4096, sent.data(), 200), Error::kSuccess);
  ASSERT_EQ(Launch(nullptr, again, again + 512), Error::kSuccess);
  EXPECT_NE(Fetch(again + 4096, 200), sent);
}

TEST_F(ContentsTest, FillsCostNoMemoryAndAreExact) {
  char* device = static_cast<char*>(NewMemory(uint64_t{40} << 30));
  ASSERT_EQ(gpu->Fill({.to = device, .value = 0x1ab, .elements = uint64_t{40} << 30}),
            Error::kSuccess);
  EXPECT_THAT(Fetch(device + (uint64_t{39} << 30), 100), Each(0xab));
  ASSERT_EQ(
      gpu->Fill(
          {.to = device + 4, .value = 0x04030201, .element_bytes = 4, .elements = 2}),
      Error::kSuccess);
  EXPECT_THAT(Fetch(device + 3, 10),
              ::testing::ElementsAre(0xab, 1, 2, 3, 4, 1, 2, 3, 4, 0xab));
  ASSERT_EQ(CopyBytes(device + 101, device + 4, 8), Error::kSuccess);
  EXPECT_THAT(Fetch(device + 101, 8), ::testing::ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
}

TEST_F(ContentsTest, KernelResultsReachTheHostAsZeroAndAreCounted) {
  char* device = static_cast<char*>(NewMemory(4096));
  const auto sent = Count(200);
  ASSERT_EQ(CopyBytes(device, sent.data(), 200), Error::kSuccess);
  ASSERT_EQ(Launch(nullptr, device, device + 100), Error::kSuccess);
  auto seen = Fetch(device, 200);
  EXPECT_TRUE(std::equal(seen.begin(), seen.begin() + 100, sent.begin()));
  EXPECT_TRUE(std::all_of(seen.begin() + 100, seen.end(),
                          [](unsigned char byte) { return byte == 0; }));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 100u);
  auto losses = channel.records(RecordKind::kLoss);
  EXPECT_EQ(channel.NameOf(losses.at(0).as<protocol::Loss>().name), "_Z6kernelPKfPf");
}

TEST_F(ContentsTest, ReadingThroughAConstPointerKeepsTheBytes) {
  char* device = static_cast<char*>(NewMemory(4096));
  char* out = static_cast<char*>(NewMemory(4096));
  const auto sent = Count(64);
  ASSERT_EQ(CopyBytes(device, sent.data(), 64), Error::kSuccess);
  ASSERT_EQ(Launch(nullptr, device, out), Error::kSuccess);
  EXPECT_EQ(Fetch(device, 64), sent);
}

TEST_F(ContentsTest, ValuePolicyChoosesComputedBytes) {
  void* device = NewMemory(64);
  gpu->SetValuePolicy([](const char* writer, unsigned char* to, uint64_t bytes) {
    std::memset(to, 9, bytes);
    return std::string_view(writer) == "_Z6kernelPKfPf";
  });
  ASSERT_EQ(Launch(nullptr, nullptr, device), Error::kSuccess);
  EXPECT_THAT(Fetch(device, 64), Each(9));
}

TEST_F(ContentsTest, UnwrittenMemoryIsZeroAndCounted) {
  void* device = NewMemory(64);
  EXPECT_THAT(Fetch(device, 64), Each(0));
  EXPECT_EQ(channel.Lost(LossId::kUnwrittenToHost), 64u);
}

TEST_F(ContentsTest, FreedMemoryNeverShowsOldBytes) {
  void* device = NewMemory(64);
  const auto sent = Count(64);
  ASSERT_EQ(CopyBytes(device, sent.data(), 64), Error::kSuccess);
  ASSERT_EQ(gpu->Free(device), Error::kSuccess);
  ASSERT_EQ(NewMemory(64), device);
  EXPECT_THAT(Fetch(device, 64), Each(0));
}

TEST_F(ContentsTest, GemmWritesItsMatrixAlone) {
  char* device = static_cast<char*>(NewMemory(4096));
  const auto sent = Count(96);
  ASSERT_EQ(CopyBytes(device, sent.data(), 96), Error::kSuccess);
  // 2 columns of 8 bytes, 32 apart.
  WrittenBlock block{.address = device + 16, .row_bytes = 8, .rows = 2, .pitch = 32};
  GemmLaunch launch{.name = "cublasSgemm_v2",
                    .m = 2,
                    .n = 2,
                    .k = 2,
                    .outputs = &block,
                    .output_count = 1};
  ASSERT_EQ(gpu->LaunchGemm(launch), Error::kSuccess);
  auto expected = sent;
  std::fill_n(expected.begin() + 16, 8, 0);
  std::fill_n(expected.begin() + 48, 8, 0);
  EXPECT_EQ(Fetch(device, 96), expected);
}

TEST_F(ContentsTest, UnknownArgumentsVoidEverything) {
  void* device = NewMemory(64);
  const auto sent = Count(64);
  ASSERT_EQ(CopyBytes(device, sent.data(), 64), Error::kSuccess);
  KernelLaunch launch;
  launch.kernel = gpu->FindKernel("c_kernel");
  ASSERT_EQ(gpu->LaunchKernel(launch), Error::kSuccess);
  EXPECT_THAT(Fetch(device, 64), Each(0));
  EXPECT_EQ(channel.Lost(LossId::kArgumentsUnknown), 1u);
}

TEST_F(ContentsTest, LaunchRecordsNameShapeAndArguments) {
  void* out = NewMemory(64);
  channel.Clear();
  ASSERT_EQ(Launch(nullptr, nullptr, out), Error::kSuccess);
  auto kernels = channel.records(RecordKind::kKernel);
  ASSERT_EQ(kernels.size(), 1u);
  auto kernel = kernels[0].as<protocol::Kernel>();
  EXPECT_EQ(channel.NameOf(kernel.name), "_Z6kernelPKfPf");
  ASSERT_EQ(kernel.argument_bytes, 16u);
  uint64_t second;
  std::memcpy(&second, kernels[0].tail<protocol::Kernel>().data() + 8, 8);
  EXPECT_EQ(second, reinterpret_cast<uint64_t>(out));
}

TEST_F(ContentsTest, ResultIsFetchedByABlockingCopy) {
  ServeResult();
  char* device = static_cast<char*>(NewMemory(4096));
  gpu->libraries().SetResult(device, 50, kKey, 10);
  char* copy = static_cast<char*>(NewMemory(4096));
  ASSERT_EQ(CopyBytes(copy, device + 20, 4), Error::kSuccess);
  EXPECT_THAT(Fetch(copy, 4), ::testing::ElementsAre(130, 131, 132, 133));
}

TEST_F(ContentsTest, ResultLandsAtTheWaitThatCoversIt) {
  ServeResult();
  void* stream = NewStream(kStreamNonBlocking);
  void* other = NewStream(kStreamNonBlocking);
  void* device = NewMemory(8);
  auto* host = static_cast<unsigned char*>(NewLocked(8));
  gpu->libraries().SetResult(device, 8, kKey, 0);
  ASSERT_EQ(CopyBytes(host, device, 8, stream, true), Error::kSuccess);
  EXPECT_EQ(host[0], 0) << "landed too early";
  ASSERT_EQ(Launch(other), Error::kSuccess);
  ASSERT_EQ(gpu->SynchronizeStream(other), Error::kSuccess);
  EXPECT_EQ(host[0], 0) << "that wait does not cover it";
  ASSERT_EQ(gpu->SynchronizeStream(stream), Error::kSuccess);
  EXPECT_EQ(host[0], 100);
  EXPECT_EQ(host[7], 107);
}

TEST_F(ContentsTest, PendingResultOnTheHostStaysAResultOnTheWayBack) {
  ServeResult();
  void* stream = NewStream();
  char* device = static_cast<char*>(NewMemory(64));
  auto* host = static_cast<unsigned char*>(NewLocked(8));
  gpu->libraries().SetResult(device, 8, kKey, 0);
  ASSERT_EQ(CopyBytes(host, device, 8, stream, true), Error::kSuccess);
  ASSERT_EQ(CopyBytes(device + 32, host + 2, 4, stream, true), Error::kSuccess);
  auto pieces = gpu->libraries().Inspect(device + 32, 4);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].state, PayloadState::kDerived);
  EXPECT_EQ(pieces[0].source_offset, 2u);
}

TEST_F(ContentsTest, ComputedResultBecomesZeroAndIsCounted) {
  channel.on_ask = [this](const FakeChannel::Written& question) {
    Answer answer;
    answer.host = channel.Now();
    if (question.kind == RecordKind::kFetchPayload)
      answer.value = protocol::kComputedResult;
    return answer;
  };
  void* device = NewMemory(8);
  gpu->libraries().SetResult(device, 8, kKey, 0);
  EXPECT_THAT(Fetch(device, 8), Each(0));
  EXPECT_EQ(channel.Lost(LossId::kComputedToHost), 8u);
}

TEST_F(ContentsTest, InspectNamesThePieces) {
  char* device = static_cast<char*>(NewMemory(4096));
  const auto sent = Count(10);
  ASSERT_EQ(CopyBytes(device, sent.data(), 10), Error::kSuccess);
  ASSERT_EQ(gpu->Fill({.to = device + 10, .value = 7, .elements = 10}),
            Error::kSuccess);
  gpu->libraries().SetResult(device + 30, 10, kKey, 4);
  auto pieces = gpu->libraries().Inspect(device, 40);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].state, PayloadState::kKnown);
  EXPECT_EQ(pieces[0].bytes, 20u);
  EXPECT_EQ(pieces[1].state, PayloadState::kComputed);
  EXPECT_EQ(pieces[2].state, PayloadState::kDerived);
  EXPECT_EQ(pieces[2].offset, 30u);
  unsigned char bytes[20];
  gpu->libraries().Read(device, 20, bytes);
  EXPECT_EQ(bytes[9], 10);
  EXPECT_EQ(bytes[19], 7);
}

TEST_F(ContentsTest, PitchedCopiesMoveRows) {
  char* device = static_cast<char*>(NewMemory(4096));
  const auto sent = Count(30);
  ASSERT_EQ(gpu->Copy({.to = device,
                       .from = sent.data(),
                       .row_bytes = 10,
                       .rows = 3,
                       .to_pitch = 512,
                       .from_pitch = 10}),
            Error::kSuccess);
  EXPECT_EQ(Fetch(device + 1024, 10)[0], 21);
  EXPECT_EQ(channel.records(RecordKind::kCopy)[0].as<protocol::Copy>().bytes, 30u);
}

TEST_F(ContentsTest, CopiesCheckDirectionAndExtent) {
  char* device = static_cast<char*>(NewMemory(64));
  char host[128];
  EXPECT_EQ(gpu->Copy({.to = host,
                       .from = device,
                       .row_bytes = 8,
                       .direction = CopyDirection::kHostToDevice}),
            Error::kInvalidValue);
  EXPECT_EQ(CopyBytes(host, device, 65), Error::kInvalidValue);
  EXPECT_EQ(CopyBytes(nullptr, device, 1), Error::kInvalidValue);
  EXPECT_EQ(CopyBytes(nullptr, nullptr, 0), Error::kSuccess);
}

TEST_F(ContentsTest, HostWaitsForCopiesAsDocumented) {
  void* stream = NewStream();
  char* device = static_cast<char*>(NewMemory(1 << 20));
  std::vector<char> pageable(1 << 20);
  void* locked = NewLocked(1 << 20);
  auto waits = [&](void* to, const void* from, uint64_t bytes, bool asynchronous) {
    channel.Clear();
    EXPECT_EQ(CopyBytes(to, from, bytes, stream, asynchronous), Error::kSuccess);
    return !channel.records(RecordKind::kHostWaitLane).empty();
  };
  EXPECT_FALSE(waits(device, locked, 1 << 20, true));
  EXPECT_FALSE(waits(locked, device, 1 << 20, true));
  EXPECT_TRUE(waits(pageable.data(), device, 8, true));
  EXPECT_FALSE(waits(device, pageable.data(), 64 << 10, true));
  EXPECT_TRUE(waits(device, pageable.data(), 1 << 20, true));
  EXPECT_TRUE(waits(device, locked, 8, false));
  EXPECT_FALSE(waits(device, device + 4096, 4096, false));
}

}  // namespace
}  // namespace vrank::gpu
