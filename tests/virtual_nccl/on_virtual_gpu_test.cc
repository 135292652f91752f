// libnccl on the virtual GPU itself: contents that go from cudaMemcpy into a
// collective, through a communicator of one rank, and out again.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
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
