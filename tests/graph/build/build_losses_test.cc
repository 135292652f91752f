// Each row of build_losses.def: a trace that has this loss and no other, once; and what
// is kept of such a trace.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/program_builder.h"
#include "tests/graph/build/hand_trace.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr uint32_t kNoSuchCall = 99;

// A launch and its kernel.
void Launch(HandTrace* hand, int64_t at) {
  hand->Call("cudaLaunchKernel", at, at + 10);
  hand->Work(WorkClass::kKernel, at + 20, at + 50);
}

std::map<BuildLoss, std::function<void(HandTrace*)>> Makers() {
  std::map<BuildLoss, std::function<void(HandTrace*)>> makers;
  makers[BuildLoss::kDroppedByCupti] = [](auto* h) { h->trace.dropped_by_cupti = 1; };
  makers[BuildLoss::kDroppedByTracer] = [](auto* h) { h->trace.dropped_by_tracer = 1; };
  makers[BuildLoss::kCutOff] = [](auto* h) { h->trace.complete = false; };
  makers[BuildLoss::kWorkWithoutCall] = [](auto* h) {
    h->Work(WorkClass::kKernel, 0, 5).correlation = kNoSuchCall;
  };
  makers[BuildLoss::kRecordingWithoutCall] = [](auto* h) {
    h->Record(1, 1).correlation = kNoSuchCall;
  };
  makers[BuildLoss::kWaitWithoutCall] = [](auto* h) {
    h->Sync(SyncKind::kStream, 100, 200).correlation = kNoSuchCall;
  };
  makers[BuildLoss::kMemoryWithoutCall] = [](auto* h) {
    TracedMemory memory;
    memory.correlation = kNoSuchCall;
    h->trace.memory.push_back(memory);
  };
  makers[BuildLoss::kQueueWaitWithoutCall] = [](auto* h) {
    TracedOverhead wait;
    wait.kind = TracedOverhead::Kind::kLaunchQueueFull;
    wait.correlation = kNoSuchCall;
    h->trace.overheads.push_back(wait);
  };
  makers[BuildLoss::kGraphLaunchWithoutCall] = [](auto* h) {
    h->trace.graph_launches.push_back({kNoSuchCall, 4, 1, 9});
  };
  makers[BuildLoss::kLaunchWithoutWork] = [](auto* h) {
    h->Call("cudaLaunchKernel", 100, 110);
  };
  makers[BuildLoss::kWorkWithoutEnd] = [](auto* h) {
    h->Call("cudaLaunchKernel", 100, 110);
    h->Work(WorkClass::kKernel, 120, 0);
  };
  makers[BuildLoss::kOperationWithoutCall] = [](auto* h) {
    TracedOperation row;
    row.correlation = kNoSuchCall;
    row.communicator = 1;
    h->trace.operations.push_back(row);
  };
  makers[BuildLoss::kWaitWithoutRecording] = [](auto* h) {
    h->Call("cudaEventRecord", 100, 110);
    h->Record(1, 1);
    h->Call("cudaStreamWaitEvent", 120, 130);
    TracedSync& wait = h->Sync(SyncKind::kStreamWait, 120, 120);
    wait.event = 1;
    wait.event_sync_id = 2;
  };
  makers[BuildLoss::kQueryWithoutTarget] = [](auto* h) {
    h->Call("cudaEventQuery", 100, 110);
  };
  makers[BuildLoss::kStreamOfUnknownKind] = [](auto* h) {
    Launch(h, 100);
    h->trace.work.back().stream = 13;
  };
  makers[BuildLoss::kHostFunction] = [](auto* h) {
    h->Call("cudaLaunchHostFunc", 100, 110);
  };
  makers[BuildLoss::kMemoryOperation] = [](auto* h) {
    h->Call("cuStreamWaitValue32_v2", 100, 110);
  };
  makers[BuildLoss::kGraphLaunch] = [](auto* h) {
    h->Call("cudaGraphLaunch", 100, 110);
    h->Work(WorkClass::kKernel, 120, 150);
    h->Work(WorkClass::kKernel, 150, 190);
  };
  makers[BuildLoss::kNodeWithoutWork] = [](auto* h) {
    h->Call("cudaGraphLaunch", 100, 110);
    h->trace.graph_launches.push_back({1, 4, 1, 9});
    h->trace.graph_nodes.push_back({4, 0, 1, GraphNodeKind::kKernel, {}, {}});
  };
  makers[BuildLoss::kGraphEvent] = [](auto* h) {
    h->Call("cudaGraphLaunch", 100, 110);
    h->trace.graph_launches.push_back({1, 4, 1, 9});
    h->trace.graph_nodes.push_back({4, 0, 1, GraphNodeKind::kEventWait, {}, {}});
  };
  makers[BuildLoss::kConcurrentIssuers] = [](auto* h) {
    Launch(h, 100);
    h->Call("cudaLaunchKernel", 105, 115, /*thread=*/1);
    h->Work(WorkClass::kKernel, 160, 170);
  };
  makers[BuildLoss::kInsideNccl] = [](auto* h) {
    TracedNcclCall nccl;
    nccl.communicator = 1;
    nccl.creation.ranks = nccl.told_size = 1;
    nccl.start_ns = 100;
    nccl.end_ns = 200;
    h->trace.nccl_calls.push_back(nccl);
    h->Call("cudaMalloc", 120, 130);
    TracedMemory memory;
    memory.correlation = 1;
    memory.address = uint64_t{2} << 20;
    memory.bytes = uint64_t{2} << 20;
    memory.time_ns = 125;
    h->trace.memory.push_back(memory);
  };
  makers[BuildLoss::kAssumedCopyCost] = [](auto* h) {
    h->Call("cudaMemcpy", 1000, 9000);
    h->Work(WorkClass::kCopy, 5000, 9000).copy_kind = 1;  // host to device
  };
  return makers;
}

BuiltProgram Build(const std::function<void(HandTrace*)>& make) {
  HandTrace hand(/*virtual_gpu=*/false);
  make(&hand);
  auto built = BuildProgram(hand.trace);
  EXPECT_TRUE(built.ok()) << built.status();
  return *std::move(built);
}

BuiltProgram Build(BuildLoss loss) {
  return Build(Makers()[loss]);
}

std::vector<Op> OpsOf(const BuiltProgram& built, OpKind kind) {
  std::vector<Op> ops;
  for (uint64_t i = 0; i < built.program->size(); ++i)
    if (built.program->op(i).kind == kind)
      ops.push_back(built.program->op(i));
  return ops;
}

TEST(BuildLossesTest, EachIsCountedAndNoOther) {
  const auto makers = Makers();
#define VRANK_BUILD_LOSS(id, expected, name, meaning)                            \
  ASSERT_EQ(makers.count(BuildLoss::id), 1u) << name;                            \
  EXPECT_THAT(Build(BuildLoss::id).losses, ElementsAre(Pair(BuildLoss::id, 1u))) \
      << name;                                                                   \
  EXPECT_EQ(std::string(Name(BuildLoss::id)), name);
#include "graph/build/build_losses.def"
#undef VRANK_BUILD_LOSS
}

TEST(BuildLossesTest, AWholeTraceHasNone) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    Launch(hand, 100);
    hand->Call("cudaEventRecord", 200, 210);
    hand->Record(1, 1);
    hand->Call("cudaEventSynchronize", 220, 260);
    TracedSync& wait = hand->Sync(SyncKind::kEvent, 225, 255);
    wait.event = 1;
    wait.event_sync_id = 1;
  });
  EXPECT_TRUE(built.losses.empty());
  EXPECT_EQ(OpsOf(built, OpKind::kWork).size(), 1u);
  EXPECT_EQ(OpsOf(built, OpKind::kHostWaitToken).size(), 1u);
}

TEST(BuildLossesTest, LeavesOutWorkWhosePlaceIsUnknown) {
  EXPECT_TRUE(OpsOf(Build(BuildLoss::kWorkWithoutCall), OpKind::kWork).empty());
  EXPECT_TRUE(
      OpsOf(Build(BuildLoss::kOperationWithoutCall), OpKind::kCollective).empty());
  EXPECT_TRUE(
      OpsOf(Build(BuildLoss::kRecordingWithoutCall), OpKind::kRecordToken).empty());
  EXPECT_TRUE(
      OpsOf(Build(BuildLoss::kWaitWithoutRecording), OpKind::kWaitToken).empty());
}

TEST(BuildLossesTest, KeepsTheHostTimeOfALaunchWithoutWork) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    Launch(hand, 100);
    hand->Call("cudaLaunchKernel", 110, 140);
  });
  ASSERT_EQ(built.program->size(), 2u);
  EXPECT_EQ(built.program->op(1).kind, OpKind::kHost);
  EXPECT_EQ(built.program->op(1).host_ns, 30);
}

TEST(BuildLossesTest, TakesWorkWithoutAnEndForNothing) {
  const std::vector<Op> work = OpsOf(Build(BuildLoss::kWorkWithoutEnd), OpKind::kWork);
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].value, 0);
}

TEST(BuildLossesTest, TakesAGraphForOneLaunchOfItsWork) {
  const std::vector<Op> work = OpsOf(Build(BuildLoss::kGraphLaunch), OpKind::kWork);
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].launch, 1);
  EXPECT_EQ(work[1].launch, 0);
  EXPECT_EQ(work[1].value, 40);
}

TEST(BuildLossesTest, KeepsWhatAssumedWorkWeighsBeyondItsTime) {
  HandTrace hand(true);
  hand.trace.session.work_sources["_Z6kernelv"] = {Source::kAssumed, 700};
  for (const char* name : {"_Z6kernelv", "_Z5otherv"}) {
    hand.Call("cudaLaunchKernel", 100, 110);
    hand.Work(WorkClass::kKernel, 200, 300).name = hand.Name(name);
  }
  const absl::StatusOr<BuiltProgram> built = BuildProgram(hand.trace);
  ASSERT_TRUE(built.ok()) << built.status();
  const std::vector<Op> work = OpsOf(*built, OpKind::kWork);
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].source, Source::kAssumed);
  EXPECT_EQ(work[0].b, 700u);
  EXPECT_EQ(work[1].source, Source::kModelled);
  EXPECT_EQ(work[1].b, 0u);
}

TEST(BuildLossesTest, KeepsTheMemoryThatNcclTakes) {
  const std::vector<Op> memory = OpsOf(Build(BuildLoss::kInsideNccl), OpKind::kMemory);
  ASSERT_EQ(memory.size(), 1u);
  EXPECT_EQ(memory[0].value, int64_t{2} << 20);
  EXPECT_EQ(memory[0].b, static_cast<uint32_t>(MemoryOwner::kCommunicator));
}

TEST(BuildLossesTest, AssumesACopysOwnCostOnlyWhereNoneWasSeen) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    hand->Call("cudaMemcpy", 1000, 9000);
    hand->Work(WorkClass::kCopy, 5000, 9000).copy_kind = 1;
    // Returns before its copy ends: all of it is the call's own.
    hand->Call("cudaMemcpy", 9000, 9700);
    hand->Work(WorkClass::kCopy, 9800, 9900).copy_kind = 1;
  });
  EXPECT_TRUE(built.losses.empty());
  const std::vector<Op> waits = OpsOf(built, OpKind::kHostWaitLane);
  ASSERT_EQ(waits.size(), 1u);
  // The host got to its wait 700 ns after the call's start, which is the trace's too.
  const std::vector<Op> copies = OpsOf(built, OpKind::kWork);
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].host_ns + waits[0].host_ns, 700);
}

TEST(BuildLossesTest, RefusesCollectivesInGraphLaunches) {
  HandTrace hand(false);
  hand.Call("cudaGraphLaunch", 100, 110);
  hand.Work(WorkClass::kKernel, 200, 300).name =
      hand.Name("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgs");
  const absl::Status status = BuildProgram(hand.trace).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("runs within a CUDA graph"));
}

// A kernel, then a collective beside a copy.
void ForkedGraph(HandTrace* hand) {
  auto& trace = hand->trace;
  trace.graph_nodes = {{4, 0, 11, GraphNodeKind::kKernel, {}, {}},
                       {4, 1, 12, GraphNodeKind::kKernel, {0}, {6}},
                       {4, 2, 13, GraphNodeKind::kCopy, {0}, {}}};
  TracedOperation operation;
  operation.captured = 6;
  operation.communicator = 2;
  operation.call.count = 100;
  trace.operations.push_back(operation);
}

void LaunchForkedGraph(HandTrace* hand, int64_t at) {
  hand->Call("cudaGraphLaunch", at, at + 10);
  hand->trace.graph_launches.push_back(
      {static_cast<uint32_t>(hand->trace.calls.size()), 4, 1, 9});
  hand->Work(WorkClass::kKernel, at + 20, at + 50).graph_node = 11;
  hand->Work(WorkClass::kKernel, at + 50, at + 90).graph_node = 12;
  hand->trace.work.back().name = hand->Name("ncclDevKernel_AllReduce");
  hand->Work(WorkClass::kCopy, at + 50, at + 57).graph_node = 13;
  hand->trace.work.back().stream = 77;
}

TEST(BuildLossesTest, LaysTheNodesOfAGraphOnLanes) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    ForkedGraph(hand);
    LaunchForkedGraph(hand, 100);
    LaunchForkedGraph(hand, 300);
  });
  EXPECT_TRUE(built.losses.empty());
  using enum OpKind;
  std::vector<OpKind> kinds;
  std::vector<uint32_t> lanes;
  for (uint64_t i = 0; i < built.program->size(); ++i) {
    kinds.push_back(built.program->op(i).kind);
    lanes.push_back(built.program->op(i).lane);
  }
  // The launch, the kernel, its end for the other lane, the collective behind it, the
  // copy on that lane, and the launching stream after both; the same again.
  const std::vector<OpKind> once = {kWork,        kWork,      kRecordToken,
                                    kCollective,  kWaitToken, kWork,
                                    kRecordToken, kWaitToken, kRecordToken};
  std::vector<OpKind> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  kinds.resize(std::min(kinds.size(), twice.size()));
  EXPECT_EQ(kinds, twice);
  const uint32_t on = lanes[0], side = lanes[4];
  EXPECT_NE(on, side);
  lanes.resize(once.size());
  EXPECT_THAT(lanes, ElementsAre(on, on, on, on, side, side, side, on, on));
  const std::vector<Op> work = OpsOf(built, OpKind::kWork);
  EXPECT_EQ(work[0].launch, 1);
  EXPECT_EQ(work[0].value, 0);
  EXPECT_EQ(work[1].launch, 0);
  EXPECT_EQ(work[1].value, 30);
  EXPECT_EQ(work[2].value, 7);
}

TEST(BuildLossesTest, GivesAGraphsLanesBackWhenItEnds) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    ForkedGraph(hand);
    LaunchForkedGraph(hand, 100);
    hand->Call("cudaGraphExecDestroy", 300, 310);
    hand->trace.graph_changes.push_back({4, 2, /*ended=*/true});
  });
  EXPECT_EQ(OpsOf(built, OpKind::kReleaseLane).size(), 1u);
}

TEST(BuildLossesTest, TakesLaunchesWithinACaptureForNodes) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    hand->Call("cudaStreamBeginCapture", 0, 10);
    hand->Call("cudaLaunchKernel", 10, 20);
    hand->Call("cudaLaunchHostFunc", 20, 30);
    hand->Call("cudaStreamEndCapture", 30, 40);
    hand->Call("cudaLaunchKernel", 50, 60);  // whose kernel is missing
  });
  EXPECT_THAT(built.losses, ElementsAre(Pair(BuildLoss::kLaunchWithoutWork, 1)));
}

TEST(BuildLossesTest, TakesALaunchIntoACaptureForANode) {
  const BuiltProgram built = Build([](HandTrace* hand) {
    ForkedGraph(hand);
    hand->Call("cudaStreamBeginCapture", 0, 10);
    hand->Call("cudaGraphLaunch", 10, 20);
    hand->trace.graph_launches.push_back({2, 4, 1, 9});
    hand->Call("cudaStreamEndCapture", 30, 40);
    LaunchForkedGraph(hand, 100);
  });
  EXPECT_TRUE(built.losses.empty());
  EXPECT_EQ(OpsOf(built, OpKind::kCollective).size(), 1u);
}

TEST(BuildLossesTest, RefusesCollectivesOfGraphsThatWereUpdated) {
  HandTrace hand(true);
  ForkedGraph(&hand);
  LaunchForkedGraph(&hand, 100);
  hand.trace.graph_changes.push_back({4, 2, /*ended=*/false});
  EXPECT_THAT(std::string(BuildProgram(hand.trace).status().message()),
              testing::HasSubstr("that was updated"));
}

TEST(BuildLossesTest, RefusesGraphsThatNoTracerWrites) {
  auto error_of = [](auto make) {
    HandTrace hand(true);
    ForkedGraph(&hand);
    make(hand.trace.graph_nodes);
    return std::string(BuildProgram(hand.trace).status().message());
  };
  EXPECT_THAT(error_of([](auto& nodes) { nodes[0].before = {3}; }),
              testing::HasSubstr("node 0 waits for node 3 of 3"));
  EXPECT_THAT(error_of([](auto& nodes) { nodes[0].before = {2}; }),
              testing::HasSubstr("in a circle"));
  EXPECT_THAT(error_of([](auto& nodes) { nodes[1].index = 2; }),
              testing::HasSubstr("node 2 stands where node 1 should"));
  EXPECT_THAT(error_of([](auto& nodes) { nodes[1].graph = 5; }),
              testing::HasSubstr("CUDA graph"));
}

TEST(BuildLossesTest, RefusesNumbersThatNoTracerWrites) {
  auto error_of = [](auto make) {
    HandTrace hand(false);
    make(&hand);
    return std::string(BuildProgram(hand.trace).status().message());
  };
  EXPECT_THAT(error_of([](HandTrace* h) { h->Call("cudaFree", 0, 1).function = 50; }),
              testing::HasSubstr("trace 'hand.vtrace': call 0 has name 50 of 2"));
  EXPECT_THAT(error_of([](HandTrace* h) { h->Call("cudaFree", 0, 1, ~0u); }),
              testing::HasSubstr("call 0 is of thread 4294967295"));
}

}  // namespace
}  // namespace vrank::graph
