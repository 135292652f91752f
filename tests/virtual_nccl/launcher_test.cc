#include "virtual_nccl/core/launcher.h"

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kElement = sizeof(float);

class LauncherTest : public NcclTest {
 protected:
  bool IsInPlace(Operation operation, ncclComm_t communicator, const void* send,
                 void* receive, int root) {
    channel.Clear();
    Request request = Collective(operation, communicator);
    request.send = send;
    request.receive = receive;
    request.root = root;
    EXPECT_EQ(Enqueue(request), ncclSuccess);
    return Records<protocol::Collective>(Kind::kCollective).at(0).in_place != 0;
  }
};

TEST_F(LauncherTest, WritesTheCallAsItIs) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Request request = Collective(Operation::kReduce, communicator, 12);
  request.type = ncclBfloat16;
  request.reduction = ncclMax;
  request.root = 3;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  auto record = Records<protocol::Collective>(Kind::kCollective).at(0);
  EXPECT_EQ(record.lane, 3u);
  EXPECT_EQ(record.communicator, 1u);
  EXPECT_EQ(record.count, 12u);
  EXPECT_EQ(record.root, 3u);
  EXPECT_EQ(record.group, 0u);
  EXPECT_EQ(record.operation, Operation::kReduce);
  EXPECT_EQ(record.type, protocol::ElementType::kBfloat16);
  EXPECT_EQ(record.reduction, protocol::Reduction::kMax);
  EXPECT_EQ(record.in_place, 0u);
}

TEST_F(LauncherTest, KnowsWhatIsInPlace) {
  ncclComm_t communicator = MakeCommunicator(4, 2);
  unsigned char* base = receive_buffer;
  const uint64_t block = 8 * kElement;
  struct Row {
    Operation operation;
    const void* send;
    void* receive;
    int root;
    bool in_place;
  };
  const Row rows[] = {
      {Operation::kAllReduce, base, base, 0, true},
      {Operation::kAllReduce, send_buffer, base, 0, false},
      {Operation::kBroadcast, base, base, 1, true},
      {Operation::kReduce, base, base, 1, true},
      {Operation::kAllGather, base + 2 * block, base, 0, true},
      {Operation::kAllGather, base, base, 0, false},
      {Operation::kReduceScatter, base, base + 2 * block, 0, true},
      {Operation::kReduceScatter, base, base, 0, false},
      {Operation::kGather, base + 3 * block, base, 3, true},
      {Operation::kGather, base, base, 3, false},
      {Operation::kScatter, base, base + 3 * block, 3, true},
      {Operation::kAllToAll, base, base, 0, false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(IsInPlace(row.operation, communicator, row.send, row.receive, row.root),
              row.in_place)
        << &row - rows;
}

// What each operation takes from and gives to a member of four, in blocks of `count`.
TEST_F(LauncherTest, MovesWhatTheOperationMoves) {
  struct Row {
    Operation operation;
    uint64_t at_root_in, at_root_out, elsewhere_in, elsewhere_out;
  };
  const Row rows[] = {
      {Operation::kAllReduce, 1, 1, 1, 1},     {Operation::kAllGather, 1, 4, 1, 4},
      {Operation::kReduceScatter, 4, 1, 4, 1}, {Operation::kBroadcast, 1, 1, 1, 1},
      {Operation::kReduce, 1, 1, 1, 0},        {Operation::kAllToAll, 4, 4, 4, 4},
      {Operation::kGather, 1, 4, 1, 0},        {Operation::kScatter, 4, 1, 1, 1},
  };
  ncclComm_t communicator = MakeCommunicator(4, 1);
  for (const Row& row : rows)
    for (bool is_root : {true, false}) {
      SCOPED_TRACE(static_cast<int>(row.operation));
      channel.Clear();
      gpu.results.clear();
      gpu.copies.clear();
      Request request = Collective(row.operation, communicator);
      // Operations without a root take none: every member is like a root of them.
      request.root = is_root ? 1 : 0;
      ASSERT_EQ(Enqueue(request), ncclSuccess);
      uint64_t in = 0, out = 0;
      for (const auto& payload : Records<protocol::Payload>(Kind::kPayload))
        in += payload.bytes;
      for (const auto& result : gpu.results)
        out += result.bytes;
      // A broadcast gives its root what the root sends.
      const bool copies = row.operation == Operation::kBroadcast && is_root;
      ASSERT_EQ(gpu.copies.size(), copies ? 1u : 0u);
      for (const auto& copy : gpu.copies)
        out += copy.bytes;
      EXPECT_EQ(in, (is_root ? row.at_root_in : row.elsewhere_in) * 8 * kElement);
      EXPECT_EQ(out, (is_root ? row.at_root_out : row.elsewhere_out) * 8 * kElement);
    }
}

// What the root knows stays known to it.
TEST_F(LauncherTest, LeavesTheBufferOfABroadcastsRootAlone) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Request request = Collective(Operation::kBroadcast, communicator);
  request.send = request.receive;
  for (const int root : {1, 2}) {
    request.root = root;
    ASSERT_EQ(Enqueue(request), ncclSuccess);
    EXPECT_EQ(gpu.results.size(), root == 1 ? 0u : 1u);
    EXPECT_TRUE(gpu.copies.empty());
  }
}

TEST_F(LauncherTest, MarksResultsWithTheirCall) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Enqueue(Collective(Operation::kAllReduce, communicator));
  Enqueue(Collective(Operation::kAllReduce, communicator, 0));  // takes no number
  Enqueue(Collective(Operation::kAllReduce, communicator));
  ASSERT_EQ(gpu.results.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(gpu.results[i].address, receive_buffer);
    EXPECT_EQ(gpu.results[i].key.communicator, 1u);
    EXPECT_EQ(gpu.results[i].key.sequence, i);
    EXPECT_EQ(gpu.results[i].key.peer, protocol::kNone);
    EXPECT_EQ(gpu.results[i].key.is_transfer, 0u);
    EXPECT_EQ(gpu.results[i].offset, 0u);
  }
}

TEST_F(LauncherTest, CountsTransfersByDirectionAndPeer) {
  ncclComm_t communicator = MakeCommunicator(4, 1);
  Enqueue(Transfer(Request::kSend, communicator, 0));
  Enqueue(Transfer(Request::kSend, communicator, 2));
  Enqueue(Transfer(Request::kSend, communicator, 0));
  Enqueue(Transfer(Request::kReceive, communicator, 0, 0));  // takes a number
  Enqueue(Transfer(Request::kReceive, communicator, 0));
  std::vector<std::pair<uint32_t, uint32_t>> sends;  // peer, sequence
  for (const auto& payload : Records<protocol::Payload>(Kind::kPayload)) {
    EXPECT_EQ(payload.key.is_transfer, 1u);
    sends.emplace_back(payload.key.peer, payload.key.sequence);
  }
  using Key = std::pair<uint32_t, uint32_t>;
  EXPECT_THAT(sends, ElementsAre(Key(0, 0), Key(2, 0), Key(0, 1)));
  ASSERT_EQ(gpu.results.size(), 1u);
  EXPECT_EQ(gpu.results[0].key.peer, 0u);
  EXPECT_EQ(gpu.results[0].key.sequence, 1u);
  EXPECT_EQ(gpu.results[0].key.is_transfer, 1u);
}

TEST_F(LauncherTest, CopiesOnOneRank) {
  ncclComm_t communicator = MakeCommunicator(1, 0);
  for (int operation = 0; operation <= 7; ++operation) {
    SCOPED_TRACE(operation);
    channel.Clear();
    gpu.copies.clear();
    ASSERT_EQ(Enqueue(Collective(static_cast<Operation>(operation), communicator)),
              ncclSuccess);
    ASSERT_THAT(Kinds(), ElementsAre(Kind::kCopy));
    auto record = Records<protocol::Copy>(Kind::kCopy).at(0);
    EXPECT_EQ(record.lane, 3u);
    EXPECT_EQ(record.copy_kind, protocol::CopyKind::kDeviceToDevice);
    EXPECT_EQ(record.bytes, 8 * kElement);
    ASSERT_EQ(gpu.copies.size(), 1u);
    EXPECT_EQ(gpu.copies[0].to, receive_buffer);
    EXPECT_EQ(gpu.copies[0].from, send_buffer);
    EXPECT_EQ(gpu.copies[0].bytes, 8 * kElement);
  }
  EXPECT_THAT(gpu.results, IsEmpty());
}

TEST_F(LauncherTest, DoesNothingInPlaceOnOneRank) {
  ncclComm_t communicator = MakeCommunicator(1, 0);
  Request request = Collective(Operation::kAllReduce, communicator);
  request.receive = send_buffer;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  EXPECT_THAT(channel.records(), IsEmpty());
}

TEST_F(LauncherTest, ScalesOnOneRankEvenInPlace) {
  ncclComm_t communicator = MakeCommunicator(1, 0);
  Request request = Collective(Operation::kAllReduce, communicator);
  request.receive = send_buffer;
  ncclRedOp_t twice = ncclSum;
  ASSERT_EQ(
      CreateReduction(Communicator::From(communicator), Times(ncclFloat32, 2), &twice),
      ncclSuccess);
  request.reduction = twice;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kPayload, Kind::kCopy));
  ASSERT_EQ(gpu.results.size(), 1u);
  EXPECT_EQ(gpu.results[0].address, send_buffer);
}

// By the emulator, where it alone knows them.
TEST_F(LauncherTest, MultipliesTheElementsOnOneRank) {
  ncclComm_t communicator = MakeCommunicator(1, 0);
  float values[] = {1.5f, -3, 7, 8};
  Request request = Collective(Operation::kAllReduce, communicator);
  request.send = values;
  request.count = 4;
  request.type = ncclFloat32;
  // Element 0 is known, 1 the result of an earlier call, 2 is half known, 3 a kernel's.
  const protocol::PayloadKey earlier{3, 7, 0, 0};
  gpu.contents[values] = {{protocol::PayloadState::kKnown, 0, 4, {}, 0},
                          {protocol::PayloadState::kDerived, 4, 4, earlier, 16},
                          {protocol::PayloadState::kKnown, 8, 2, {}, 0},
                          {protocol::PayloadState::kComputed, 10, 6, {}, 0}};
  ncclRedOp_t twice = ncclSum;
  ASSERT_EQ(
      CreateReduction(Communicator::From(communicator), Times(ncclFloat32, 2), &twice),
      ncclSuccess);
  request.reduction = twice;
  ASSERT_EQ(Enqueue(request), ncclSuccess);
  const auto payloads = Records<protocol::Payload>(Kind::kPayload);
  ASSERT_EQ(payloads.size(), 3u);
  EXPECT_EQ(payloads[0].state, protocol::PayloadState::kKnown);
  EXPECT_EQ(payloads[1].state, protocol::PayloadState::kDerived);
  EXPECT_EQ(payloads[1].source.sequence, 7u);
  EXPECT_EQ(payloads[1].factor.state, protocol::FactorState::kKnown);
  EXPECT_EQ(payloads[2].state, protocol::PayloadState::kComputed);
  EXPECT_EQ(payloads[2].bytes, 8u);
  ASSERT_EQ(gpu.results.size(), 1u);
  EXPECT_EQ(gpu.results[0].address, receive_buffer);
  EXPECT_EQ(gpu.results[0].key.sequence, payloads[0].key.sequence);
  EXPECT_EQ(gpu.results[0].key.is_transfer, 0u);
}

TEST_F(LauncherTest, KeepsOneRankCallsOnTheirOwnStreams) {
  ncclComm_t communicator = MakeCommunicator(1, 0);
  group.Start();
  for (uint32_t lane : {4, 5}) {
    Request request = Collective(Operation::kAllReduce, communicator);
    request.stream = Stream(lane);
    Enqueue(request);
  }
  ASSERT_EQ(group.End(library), ncclSuccess);
  std::vector<uint32_t> lanes;
  for (const auto& record : Records<protocol::Copy>(Kind::kCopy))
    lanes.push_back(record.lane);
  EXPECT_THAT(lanes, ElementsAre(4, 5));
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kCopy, Kind::kCopy));
}

}  // namespace
}  // namespace vrank::nccl
