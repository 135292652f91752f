#include "virtual_nccl/core/payload.h"

#include <numeric>

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"

namespace vrank::nccl {
namespace {

using protocol::PayloadKey;
using protocol::PayloadState;

constexpr PayloadKey kEarlier{1, 7, protocol::kNone, 0};
constexpr PayloadKey kOther{1, 8, protocol::kNone, 0};

ContentPiece Known(uint64_t offset, uint64_t bytes) {
  return {PayloadState::kKnown, offset, bytes, {}, 0};
}
ContentPiece Computed(uint64_t offset, uint64_t bytes) {
  return {PayloadState::kComputed, offset, bytes, {}, 0};
}
ContentPiece Derived(uint64_t offset, uint64_t bytes, PayloadKey source, uint64_t at) {
  return {PayloadState::kDerived, offset, bytes, source, at};
}

class PayloadTest : public NcclTest {
 protected:
  // The records of an all-reduce of `bytes` whose send buffer has these contents.
  std::vector<FakeChannel::Written> Contribute(std::vector<ContentPiece> pieces,
                                               uint64_t bytes) {
    gpu.contents[send_buffer] = std::move(pieces);
    channel.Clear();
    Request request = Collective(Operation::kAllReduce, communicator, bytes);
    request.type = ncclUint8;
    EXPECT_EQ(Enqueue(request), ncclSuccess);
    EXPECT_EQ(channel.records().back().kind, Kind::kCollective);
    return channel.records(Kind::kPayload);
  }
  ncclComm_t communicator = MakeCommunicator(4, 1);
};

TEST_F(PayloadTest, SaysInOneRecordThatAllIsComputed) {
  auto records = Contribute({Computed(0, 100), Computed(100, 60)}, 160);
  ASSERT_EQ(records.size(), 1u);
  auto payload = records[0].as<protocol::Payload>();
  EXPECT_EQ(payload.state, PayloadState::kComputed);
  EXPECT_EQ(payload.offset, 0u);
  EXPECT_EQ(payload.bytes, 160u);
  EXPECT_EQ(payload.last, 1u);
  EXPECT_EQ(payload.key.sequence, 0u);
  EXPECT_EQ(payload.key.peer, protocol::kNone);
}

// all_gather of a list is a broadcast from every member in one group.
TEST_F(PayloadTest, PutsItsOwnPartIntoTheBroadcastsOfAGather) {
  gpu.contents[send_buffer] = {Known(0, 16)};
  const auto states = [&](std::vector<int> roots) {
    channel.Clear();
    group.Start();
    for (const int root : roots) {
      Request request = Collective(Operation::kBroadcast, communicator, 16);
      request.type = ncclUint8;
      request.root = root;
      EXPECT_EQ(Enqueue(request), ncclSuccess);
    }
    EXPECT_EQ(group.End(library), ncclSuccess);
    std::vector<PayloadState> found;
    for (const auto& record : channel.records(Kind::kPayload))
      found.push_back(record.as<protocol::Payload>().state);
    return found;
  };
  gpu.contents[receive_buffer] = {Computed(0, 16)};
  // From all members it is one all-gather.
  EXPECT_THAT(states({0, 1, 3, 2}), ::testing::ElementsAre(PayloadState::kKnown));
  ASSERT_EQ(channel.records(Kind::kCollective).size(), 1u);
  const auto gathers = channel.records(Kind::kCollective)[0].as<protocol::Collective>();
  EXPECT_EQ(gathers.operation, Operation::kAllGather);
  EXPECT_EQ(gathers.count, 16u);
  // This member's own part is a copy.
  ASSERT_EQ(gpu.results.size(), 3u);
  ASSERT_EQ(gpu.copies.size(), 1u);
  EXPECT_EQ(gpu.results[1].offset, 3 * 16u);
  EXPECT_EQ(gpu.results[2].offset, 2 * 16u);
  EXPECT_THAT(states({0, 1, 2}),
              ::testing::ElementsAre(PayloadState::kComputed, PayloadState::kKnown,
                                     PayloadState::kComputed));
  EXPECT_EQ(states({0, 1, 2, 2}).back(), PayloadState::kComputed);
}

// A root's own part may be copied among the received ones behind them.
TEST_F(PayloadTest, TellsTheRootsOwnPartBeforeWhatComesNext) {
  const unsigned char* const own = receive_buffer + 16;  // of member 1
  for (const int peer : {0, 1, 2, 3})
    gpu.devices_of_memory[receive_buffer + 16 * peer] = 0;
  gpu.devices_of_memory[own + 15] = 0;
  const auto gather = [&] {
    channel.Clear();
    group.Start();
    for (const int peer : {0, 2, 3}) {
      Request request = Transfer(Request::kReceive, communicator, peer, 16);
      request.type = ncclUint8;
      request.receive = receive_buffer + 16 * peer;
      EXPECT_EQ(Enqueue(request), ncclSuccess);
    }
    EXPECT_EQ(group.End(library), ncclSuccess);
    EXPECT_TRUE(channel.records(Kind::kPayload).empty());
    gpu.contents[own] = {Known(0, 16)};
  };
  const auto expect_told = [&] {
    const auto told = channel.records(Kind::kPayload);
    ASSERT_FALSE(told.empty());
    const auto payload = told.front().as<protocol::Payload>();
    EXPECT_EQ(payload.state, PayloadState::kKnown);
    EXPECT_EQ(payload.key.is_transfer, protocol::kOwnPart);
    EXPECT_EQ(payload.key.peer, 1u);
    EXPECT_EQ(payload.last, 1u);
  };
  gather();
  gpu.before_fetch();
  expect_told();
  gpu.before_fetch();  // once
  EXPECT_EQ(channel.records(Kind::kPayload).size(), 1u);
  gather();
  EXPECT_EQ(Enqueue(Collective(Operation::kAllReduce, communicator, 16)), ncclSuccess);
  expect_told();
}

TEST_F(PayloadTest, SendsKnownBytesInChunks) {
  std::iota(send_buffer, send_buffer + sizeof send_buffer, 0);
  const uint64_t bytes = 2 * kPayloadChunk + 10;
  auto records = Contribute({Known(0, 5), Known(5, bytes - 5)}, bytes);
  ASSERT_EQ(records.size(), 3u);
  uint64_t at = 0;
  for (const auto& record : records) {
    auto payload = record.as<protocol::Payload>();
    EXPECT_EQ(payload.state, PayloadState::kKnown);
    EXPECT_EQ(payload.offset, at);
    EXPECT_LE(payload.bytes, kPayloadChunk);
    EXPECT_EQ(memcmp(record.tail<protocol::Payload>().data(), send_buffer + at,
                     payload.bytes),
              0);
    at += payload.bytes;
    EXPECT_EQ(payload.last, at == bytes ? 1u : 0u);
  }
  EXPECT_EQ(at, bytes);
}

TEST_F(PayloadTest, NamesTheSourceOfDerivedPieces) {
  auto records = Contribute(
      {Known(0, 8), Derived(8, 16, kEarlier, 32), Derived(24, 8, kEarlier, 48),
       Derived(32, 8, kOther, 56), Computed(40, 24)},
      64);
  ASSERT_EQ(records.size(), 4u);
  auto derived = records[1].as<protocol::Payload>();
  EXPECT_EQ(derived.state, PayloadState::kDerived);
  EXPECT_EQ(derived.offset, 8u);
  EXPECT_EQ(derived.bytes, 24u);
  EXPECT_EQ(derived.source.sequence, 7u);
  EXPECT_EQ(derived.source_offset, 32u);
  EXPECT_EQ(derived.last, 0u);
  EXPECT_EQ(records[2].as<protocol::Payload>().source.sequence, 8u);
  EXPECT_EQ(records[3].as<protocol::Payload>().last, 1u);
}

TEST_F(PayloadTest, MultipliesWhatIsKnownOfAScaledSum) {
  const float values[] = {1, -2, 3.5f, 4};
  memcpy(send_buffer, values, sizeof values);
  gpu.contents[send_buffer] = {Known(0, 16), {PayloadState::kComputed, 16, 16, {}, 0}};
  Request request = Collective(Operation::kAllReduce, communicator);
  ncclRedOp_t operation = ncclSum;
  ASSERT_EQ(CreateReduction(Communicator::From(communicator), Times(ncclFloat32, 2),
                            &operation),
            ncclSuccess);
  request.reduction = operation;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  const auto written = channel.records(Kind::kPayload);
  ASSERT_EQ(written.size(), 2u);
  EXPECT_EQ(written[0].as<protocol::Payload>().state, PayloadState::kKnown);
  EXPECT_EQ(written[1].as<protocol::Payload>().state, PayloadState::kComputed);
  float found[4];
  memcpy(found, written[0].tail<protocol::Payload>().data(), sizeof found);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(found[i], 2 * values[i]);
}

TEST_F(PayloadTest, CountsASumScaledByAnUnknownDeviceScalarAsComputed) {
  gpu.contents[send_buffer] = {Known(0, 32)};
  UserReduction by_device = Times(ncclFloat32, 2);
  by_device.device_scalar = receive_buffer;
  Request request = Collective(Operation::kAllReduce, communicator);
  ncclRedOp_t operation = ncclSum;
  ASSERT_EQ(CreateReduction(Communicator::From(communicator), by_device, &operation),
            ncclSuccess);
  request.reduction = operation;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  auto payloads = Records<protocol::Payload>(Kind::kPayload);
  ASSERT_EQ(payloads.size(), 1u);
  EXPECT_EQ(payloads[0].state, PayloadState::kComputed);
  EXPECT_EQ(payloads[0].bytes, 32u);
}

// What nobody has read yet is multiplied where it becomes known.
TEST_F(PayloadTest, LeavesTheFactorToWhoFormsTheResult) {
  gpu.contents[send_buffer] = {Derived(0, 6, kEarlier, 32), Derived(6, 14, kOther, 2),
                               Known(20, 12)};
  gpu.contents[receive_buffer] = {Derived(0, 4, kOther, 48)};
  for (const bool on_device : {false, true}) {
    channel.Clear();
    UserReduction reduction = Times(ncclFloat32, 2);
    if (on_device)
      reduction.device_scalar = receive_buffer;
    Request request = Collective(Operation::kAllReduce, communicator);
    ncclRedOp_t operation = ncclSum;
    ASSERT_EQ(CreateReduction(Communicator::From(communicator), reduction, &operation),
              ncclSuccess);
    request.reduction = operation;
    ASSERT_EQ(Enqueue(request), ncclSuccess);
    const auto payloads = Records<protocol::Payload>(Kind::kPayload);
    ASSERT_EQ(payloads.size(), 4u);
    EXPECT_EQ(payloads[0].state, PayloadState::kDerived);
    EXPECT_EQ(payloads[0].bytes, 4u);
    // The element that two results share.
    EXPECT_EQ(payloads[1].state, PayloadState::kComputed);
    EXPECT_EQ(payloads[1].bytes, 4u);
    EXPECT_EQ(payloads[2].state, PayloadState::kDerived);
    EXPECT_EQ(payloads[2].source_offset, 4u);
    EXPECT_EQ(payloads[2].bytes, 12u);
    EXPECT_EQ(payloads[3].state, PayloadState::kKnown);
    for (const size_t derived : {0, 2}) {
      const protocol::PayloadFactor& factor = payloads[derived].factor;
      EXPECT_EQ(factor.type, protocol::ElementType::kFloat32);
      EXPECT_EQ(factor.state, on_device ? protocol::FactorState::kDerived
                                        : protocol::FactorState::kKnown);
      if (on_device) {
        EXPECT_EQ(factor.source.sequence, kOther.sequence);
        EXPECT_EQ(factor.source_offset, 48u);
      } else {
        EXPECT_EQ(memcmp(factor.value, reduction.scalar.data(), 4), 0);
      }
    }
    EXPECT_EQ(payloads[3].factor.state, on_device ? protocol::FactorState::kDerived
                                                  : protocol::FactorState::kNone);
  }
}

TEST_F(PayloadTest, DepositsAllSendsBeforeTheirLaunch) {
  gpu.contents[send_buffer] = {Known(0, 32)};
  group.Start();
  Enqueue(Transfer(Request::kReceive, communicator, 0));
  Enqueue(Transfer(Request::kSend, communicator, 0));
  Enqueue(Transfer(Request::kSend, communicator, 2));
  ASSERT_EQ(group.End(library), ncclSuccess);
  EXPECT_THAT(Kinds(), ::testing::ElementsAre(Kind::kPayload, Kind::kPayload,
                                              Kind::kPointToPoint));
  EXPECT_EQ(gpu.results.size(), 1u);
}

TEST(MergePiecesTest, JoinsOnlyWhatContinues) {
  std::vector<ContentPiece> pieces = {Computed(0, 4),
                                      Computed(4, 4),
                                      Computed(12, 4),
                                      Derived(16, 4, kEarlier, 0),
                                      Derived(20, 4, kOther, 4),
                                      Derived(24, 4, kOther, 8),
                                      Derived(28, 4, kOther, 20),
                                      Known(32, 0),
                                      Known(32, 4)};
  MergePieces(&pieces);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const ContentPiece& piece : pieces)
    ranges.emplace_back(piece.offset, piece.bytes);
  using Range = std::pair<uint64_t, uint64_t>;
  EXPECT_THAT(ranges, ::testing::ElementsAre(Range(0, 8), Range(12, 4), Range(16, 4),
                                             Range(20, 8), Range(28, 4), Range(32, 4)));
}

}  // namespace
}  // namespace vrank::nccl
