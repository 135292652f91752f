// libnccl on the virtual GPU itself: contents that go from cudaMemcpy into a
// collective, through a communicator of one rank, and out again.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "base/guest/export.h"
#include "tests/virtual_gpu/core/fake_channel.h"

namespace vrank::nccl {
namespace {

FakeChannel& TheChannel() {
  static FakeChannel* const channel = [] {
    auto* made = new FakeChannel;
    made->mutable_settings().communicator_bytes = 64 << 20;
    return made;
  }();
  return *channel;
}

using protocol::PayloadState;
using protocol::RecordKind;

class OnVirtualGpuTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 64;

  OnVirtualGpuTest() {
    EXPECT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&other_, kBytes), cudaSuccess);
    for (size_t i = 0; i < kBytes; ++i)
      host_[i] = static_cast<unsigned char>(3 * i + 1);
    EXPECT_EQ(cudaMemcpy(device_, host_, kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnVirtualGpuTest() override {
    EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFree(other_), cudaSuccess);
  }
  void Init(int ranks) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comm_, ranks, id, 0), ncclSuccess);
    TheChannel().Clear();
  }

  void* device_ = nullptr;
  void* other_ = nullptr;
  unsigned char host_[kBytes];
  ncclComm_t comm_ = nullptr;
};

TEST_F(OnVirtualGpuTest, DepositsWhatTheProgramCopiedThere) {
  Init(2);
  ASSERT_EQ(ncclAllReduce(device_, other_, kBytes, ncclUint8, ncclSum, comm_, nullptr),
            ncclSuccess)
      << ncclGetLastError(comm_);
  auto payloads = TheChannel().records(RecordKind::kPayload);
  ASSERT_EQ(payloads.size(), 1u);
  EXPECT_EQ(payloads[0].as<protocol::Payload>().state, PayloadState::kKnown);
  auto bytes = payloads[0].tail<protocol::Payload>();
  ASSERT_EQ(bytes.size(), kBytes);
  EXPECT_EQ(memcmp(bytes.data(), host_, kBytes), 0);
}

TEST_F(OnVirtualGpuTest, NamesAnUnreadResultAsTheSourceOfTheNextCall) {
  Init(2);
  ASSERT_EQ(ncclAllReduce(device_, other_, kBytes, ncclUint8, ncclSum, comm_, nullptr),
            ncclSuccess);
  ASSERT_EQ(ncclAllReduce(other_, other_, kBytes, ncclUint8, ncclSum, comm_, nullptr),
            ncclSuccess);
  auto second =
      TheChannel().records(RecordKind::kPayload).at(1).as<protocol::Payload>();
  EXPECT_EQ(second.state, PayloadState::kDerived);
  EXPECT_EQ(second.source.communicator, second.key.communicator);
  EXPECT_EQ(second.source.sequence, 0u);
  EXPECT_EQ(second.key.sequence, 1u);
}

// Small allocations share a mapped block: a count that is too large goes on into the
// next one, as on a GPU.
TEST_F(OnVirtualGpuTest, GoesOnBehindAnAllocationWhereMemoryIsMapped) {
  Init(2);
  const auto* const begin = static_cast<unsigned char*>(std::min(device_, other_));
  const auto* const next = static_cast<unsigned char*>(std::max(device_, other_));
  const size_t distance = static_cast<size_t>(next - begin);
  ASSERT_LT(distance, 4096u);
  const std::vector<unsigned char> sevens(kBytes, 7);
  for (void* each : {device_, other_})
    ASSERT_EQ(cudaMemcpy(each, sevens.data(), kBytes, cudaMemcpyHostToDevice),
              cudaSuccess);
  const size_t bytes = distance + kBytes;
  ASSERT_EQ(ncclAllReduce(begin, const_cast<unsigned char*>(begin), bytes, ncclUint8,
                          ncclSum, comm_, nullptr),
            ncclSuccess);
  std::vector<std::pair<PayloadState, uint64_t>> pieces;
  for (const auto& record : TheChannel().records(RecordKind::kPayload)) {
    const auto payload = record.as<protocol::Payload>();
    pieces.emplace_back(payload.state, payload.offset);
    if (payload.state == PayloadState::kKnown) {
      EXPECT_EQ(record.tail<protocol::Payload>()[0], 7);
    }
  }
  using Piece = std::pair<PayloadState, uint64_t>;
  EXPECT_THAT(pieces, testing::ElementsAre(Piece(PayloadState::kKnown, 0),
                                           Piece(PayloadState::kComputed, kBytes),
                                           Piece(PayloadState::kKnown, distance)));
  // Both allocations hold the result now.
  TheChannel().Clear();
  void* third = nullptr;
  ASSERT_EQ(cudaMalloc(&third, kBytes), cudaSuccess);
  for (const void* each : {begin, next})
    ASSERT_EQ(ncclAllReduce(each, third, kBytes, ncclUint8, ncclSum, comm_, nullptr),
              ncclSuccess);
  std::vector<uint64_t> offsets;
  for (const auto& record : TheChannel().records(RecordKind::kPayload)) {
    EXPECT_EQ(record.as<protocol::Payload>().state, PayloadState::kDerived);
    offsets.push_back(record.as<protocol::Payload>().source_offset);
  }
  EXPECT_THAT(offsets, testing::ElementsAre(0, distance));
  EXPECT_EQ(cudaFree(third), cudaSuccess);
}

// In a process of its own: the GPU is lost.
TEST_F(OnVirtualGpuTest, FaultsWhereNoMemoryIsMapped) {
  Init(2);
  EXPECT_EXIT(
      {
        ncclAllReduce(device_, device_, size_t{1} << 30, ncclUint8, ncclSum, comm_,
                      nullptr);
        exit(cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "1073741824 bytes at 0x[0-9a-f]+ of device 0, whose allocation ends after 64");
  EXPECT_EXIT(
      {
        ncclBroadcast(device_, device_, size_t{1} << 30, ncclUint8, 1, comm_, nullptr);
        exit(cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 1);
      },
      testing::ExitedWithCode(0), "cudaErrorIllegalAddress");
}

// The emulator would look for the communicator.
TEST_F(OnVirtualGpuTest, DoesNotTellOfAGraphThatIsLaunchedAfterItsCommunicator) {
  Init(2);
  EXPECT_EXIT(
      {
        cudaStream_t stream = nullptr;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t exec = nullptr;
        cudaStreamCreate(&stream);
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
        ncclAllReduce(device_, device_, kBytes, ncclUint8, ncclSum, comm_, stream);
        cudaStreamEndCapture(stream, &graph);
        bool fine = cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess &&
                    cudaGraphLaunch(exec, stream) == cudaSuccess;
        fine = fine && ncclCommDestroy(comm_) == ncclSuccess;
        cudaGraphLaunch(exec, stream);
        fine = fine && cudaDeviceSynchronize() == cudaErrorIllegalAddress &&
               TheChannel().records(RecordKind::kGraphLaunch).size() == 1;
        exit(fine ? 0 : 1);
      },
      testing::ExitedWithCode(0), "launched after its communicator");
}

TEST_F(OnVirtualGpuTest, CarriesBytesThroughACommunicatorOfOneRank) {
  Init(1);
  ASSERT_EQ(ncclAllGather(device_, other_, kBytes, ncclUint8, comm_, nullptr),
            ncclSuccess);
  unsigned char found[kBytes] = {};
  ASSERT_EQ(cudaMemcpy(found, other_, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(memcmp(found, host_, kBytes), 0);
}

TEST_F(OnVirtualGpuTest, JoinsTheOtherStreamsOfAGroup) {
  Init(2);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (cudaStream_t stream : streams)
    ASSERT_EQ(ncclAllReduce(device_, other_, kBytes, ncclUint8, ncclSum, comm_, stream),
              ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  auto collectives = TheChannel().records(RecordKind::kCollective);
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_EQ(collectives[0].as<protocol::Collective>().lane,
            collectives[1].as<protocol::Collective>().lane);
  EXPECT_EQ(TheChannel().records(RecordKind::kWaitToken).size(), 2u);
  for (cudaStream_t stream : streams)
    ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(OnVirtualGpuTest, TakesDeviceMemoryPerCommunicator) {
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  Init(2);
  ASSERT_EQ(cudaMemGetInfo(&during, &total), cudaSuccess);
  EXPECT_LT(during, before);
  ASSERT_EQ(ncclCommDestroy(comm_), ncclSuccess);
  comm_ = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace vrank::nccl

extern "C" VRANK_EXPORT vrank::Channel* vrank_guest_channel(uint32_t abi) {
  return abi == vrank::Channel::kAbi ? &vrank::nccl::TheChannel() : nullptr;
}
