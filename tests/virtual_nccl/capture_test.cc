// NCCL calls in captured streams: nodes of a CUDA graph, which each launch carries out.

#include <nccl.h>

#include <gmock/gmock.h>

#include "tests/virtual_nccl/nccl_fixture.h"

namespace vrank::nccl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NcclCaptureTest : public NcclTest {
 protected:
  NcclCaptureTest() { gpu.captures = {{3, 1}, {4, 1}, {5, 2}}; }

  void Repeat(CapturedWork& node) {
    gpu.repeats = true;
    node.Repeat();
    gpu.repeats = false;
  }
};

TEST_F(NcclCaptureTest, CallsBecomeNodesAndLaunchesRecords) {
  ncclComm_t comm = MakeCommunicator(4, 1);
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
  EXPECT_THAT(Kinds(), IsEmpty());
  ASSERT_EQ(gpu.captured.size(), 1u);
  EXPECT_EQ(gpu.captured[0].first, 3u);
  CapturedWork& node = *gpu.captured[0].second;

  node.Launch({0, 9}, protocol::kInGraph);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kPayload, Kind::kCollective));
  const auto record = Records<protocol::Collective>(Kind::kCollective)[0];
  EXPECT_EQ(record.lane, 9u);
  EXPECT_EQ(record.record.flags, protocol::kInGraph);
  channel.Clear();

  // The emulator remembers the record; the contribution is new each time.
  Repeat(node);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kPayload));
  ASSERT_EQ(gpu.results.size(), 2u);
  EXPECT_EQ(gpu.results[0].key.sequence, 0u);
  EXPECT_EQ(gpu.results[1].key.sequence, 1u);
}

// "Using NCCL with CUDA Graphs": calls outside of graphs and launches may alternate.
TEST_F(NcclCaptureTest, LaunchesAndCallsCountTogether) {
  ncclComm_t comm = MakeCommunicator(4, 1);
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
  gpu.captures.clear();
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
  Repeat(*gpu.captured[0].second);
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
  ASSERT_EQ(gpu.results.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ(gpu.results[i].key.sequence, i);
}

TEST_F(NcclCaptureTest, TransfersOfAGroupAreOneNode) {
  ncclComm_t comm = MakeCommunicator(4, 1);
  group.Start();
  ASSERT_EQ(Enqueue(Transfer(Request::kSend, comm, 2)), ncclSuccess);
  ASSERT_EQ(Enqueue(Transfer(Request::kReceive, comm, 0)), ncclSuccess);
  ASSERT_EQ(group.End(library), ncclSuccess);
  ASSERT_EQ(gpu.captured.size(), 1u);
  gpu.captured[0].second->Launch({0, 9}, protocol::kInGraph);
  const auto records = Records<protocol::PointToPoint>(Kind::kPointToPoint);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].count, 2u);
}

TEST_F(NcclCaptureTest, OneRankAloneCopies) {
  ncclComm_t comm = MakeCommunicator(1, 0);
  ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
  ASSERT_EQ(gpu.captured.size(), 1u);
  Repeat(*gpu.captured[0].second);
  EXPECT_THAT(Kinds(), IsEmpty());
  EXPECT_EQ(gpu.copies.size(), 1u);
}

// "Streams given to a communicator within a NCCL group must either be all uncaptured or
// all captured by the same graph": ncclInvalidUsage.
TEST_F(NcclCaptureTest, AGroupIsOfOneGraph) {
  ncclComm_t comm = MakeCommunicator(4, 1);
  for (const uint32_t lane : {5u, 6u}) {
    Request other = Collective(Operation::kAllReduce, comm);
    other.stream = Stream(lane);
    group.Start();
    ASSERT_EQ(Enqueue(Collective(Operation::kAllReduce, comm)), ncclSuccess);
    ASSERT_EQ(Enqueue(other), ncclInvalidUsage);
    EXPECT_EQ(group.End(library), ncclInvalidUsage);
  }
  EXPECT_THAT(gpu.captured, IsEmpty());
}

}  // namespace
}  // namespace vrank::nccl
