// Threads that issue nothing are no part of the program, whatever they ask.

#include <gtest/gtest.h>

#include "graph/build/program_builder.h"
#include "graph/build/program_comparison.h"
#include "tests/graph/build/hand_trace.h"

namespace vrank::graph {
namespace {

// A launch, an event, and a wait of the host for it.
HandTrace Training() {
  HandTrace hand(/*virtual_gpu=*/true);
  hand.Call("cudaLaunchKernel", 1000, 1200);
  hand.Work(WorkClass::kKernel, 3000, 9000);
  hand.Call("cudaEventRecord", 1200, 1300);
  hand.Record(1, 1);
  hand.Call("cudaEventSynchronize", 1300, 9000);
  TracedSync& wait = hand.Sync(SyncKind::kEvent, 1400, 9000);
  wait.event = 1;
  wait.event_sync_id = 1;
  return hand;
}

// As PyTorch's watchdog does: asks about the program's event, and sleeps.
void AddWatchdog(HandTrace* hand) {
  for (const int64_t at : {1250, 1950, 2650, 3350}) {
    hand->Call("cudaEventQuery", at, at + 100, /*thread=*/1).result = 600;
    TracedSync& question = hand->Sync(SyncKind::kEvent, at, at + 100);
    question.event = 1;
    question.event_sync_id = 1;
  }
}

TEST(HelperThreadsTest, LeaveNoTrace) {
  const HandTrace alone = Training();
  HandTrace watched = Training();
  AddWatchdog(&watched);
  const auto a = BuildProgram(alone.trace), b = BuildProgram(watched.trace);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(FirstDifference(*a->program, *b->program, {true, true, true}), "");
  EXPECT_EQ(a->program->size(), b->program->size());
  EXPECT_TRUE(b->losses.empty());
}

TEST(HelperThreadsTest, AreHelpersOnlyUntilTheyIssue) {
  HandTrace hand = Training();
  AddWatchdog(&hand);
  hand.Call("cudaLaunchKernel", 9100, 9300, /*thread=*/1);
  hand.Work(WorkClass::kKernel, 9500, 9600);
  const auto built = BuildProgram(hand.trace);
  ASSERT_TRUE(built.ok()) << built.status();
  uint64_t questions = 0, kernels = 0;
  for (uint64_t i = 0; i < built->program->size(); ++i) {
    questions += built->program->op(i).kind == OpKind::kQueryToken;
    kernels += built->program->op(i).kind == OpKind::kWork;
  }
  EXPECT_EQ(questions, 4u);
  EXPECT_EQ(kernels, 2u);
  // It asks while the other one waits, and that is said.
  EXPECT_EQ(built->losses.count(BuildLoss::kConcurrentIssuers), 1u);
}

// A program of one thread that waits for nothing is still a program.
TEST(HelperThreadsTest, TheOnlyThreadIsTheProgram) {
  HandTrace hand(/*virtual_gpu=*/true);
  hand.Call("cudaGetDeviceCount", 100, 400);
  hand.trace.session.host_end_ns = 450;  // the emulator heard of it for so long
  const auto built = BuildProgram(hand.trace);
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_EQ(built->program->size(), 1u);
  EXPECT_EQ(built->program->op(0).host_ns, 450);
  // On a real GPU nobody heard of anything but the calls.
  hand.trace.session.virtual_gpu = false;
  const auto real = BuildProgram(hand.trace);
  ASSERT_TRUE(real.ok()) << real.status();
  ASSERT_EQ(real->program->size(), 1u);
  EXPECT_EQ(real->program->op(0).host_ns, 300);
}

}  // namespace
}  // namespace vrank::graph
