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
  makers[BuildLoss::kDroppedRecords] = [](auto* h) { h->trace.dropped_records = 1; };
  makers[BuildLoss::kCutOff] = [](auto* h) { h->trace.complete = false; };
  makers[BuildLoss::kWorkWithoutCall] = [](auto* h) {
    h->Work(WorkClass::kKernel, 0, 5).correlation = kNoSuchCall;
  };
  makers[BuildLoss::kRowWithoutCall] = [](auto* h) {
    h->Record(1, 1).correlation = kNoSuchCall;
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
#define VRANK_BUILD_LOSS(id, name, meaning)                                      \
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
  EXPECT_TRUE(OpsOf(Build(BuildLoss::kRowWithoutCall), OpKind::kRecordToken).empty());
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
      hand.Name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)");
  const absl::Status status = BuildProgram(hand.trace).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("runs within a CUDA graph"));
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
