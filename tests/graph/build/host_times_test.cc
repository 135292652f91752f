// CPU time of the program between its calls, which a virtual GPU's trace states,
// becomes host time of its source.

#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/build/program_builder.h"
#include "graph/build/program_comparison.h"
#include "tests/graph/build/hand_trace.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;

constexpr Source kMeasured = Source::kMeasured, kRecorded = Source::kRecorded,
                 kAssumed = Source::kAssumed;

// Launches that cost 200 ns, a wait in which no host time passes, and 50 ns at the end.
HandTrace Training(bool virtual_gpu) {
  HandTrace hand(virtual_gpu);
  hand.Call("cudaLaunchKernel", 1000, 1200);
  hand.Work(WorkClass::kKernel, 3000, 9000);
  hand.Call("cudaStreamSynchronize", 1300, 9000);
  hand.Sync(SyncKind::kStream, 1400, 9000);
  hand.Call("cudaLaunchKernel", 9500, 9700);
  hand.Work(WorkClass::kKernel, 9800, 9900);
  hand.trace.session.host_end_ns = 9750;
  return hand;
}

using Part = std::tuple<OpKind, int64_t, Source>;

std::vector<Part> HostTimes(const RankTrace& trace) {
  const auto built = BuildProgram(trace);
  EXPECT_TRUE(built.ok()) << built.status();
  std::vector<Part> parts;
  for (uint64_t i = 0; i < built->program->size(); ++i)
    if (const Op& op = built->program->op(i); op.host_ns != 0)
      parts.emplace_back(op.kind, op.host_ns, op.host_source);
  return parts;
}

TEST(HostTimesTest, WithoutRowsTheHostOfAVirtualGpuIsAssumed) {
  EXPECT_THAT(HostTimes(Training(true).trace),
              ElementsAre(Part{OpKind::kWork, 1200, kAssumed},
                          Part{OpKind::kHostWaitLane, 200, kAssumed},
                          Part{OpKind::kWork, 700, kAssumed},
                          Part{OpKind::kHost, 50, kAssumed}));
}

TEST(HostTimesTest, TheProgramsOwnTimeIsSplitOff) {
  HandTrace hand = Training(true);
  // From the start; across the wait, before which 1,400 ns have passed; all of the end.
  hand.trace.host_times = {
      {kMeasured, 0, 1000}, {kRecorded, 1300, 600}, {kMeasured, 2100, 50}};
  EXPECT_THAT(HostTimes(hand.trace),
              ElementsAre(Part{OpKind::kHost, 1000, kMeasured},
                          Part{OpKind::kWork, 200, kAssumed},
                          Part{OpKind::kHost, 100, kAssumed},
                          Part{OpKind::kHostWaitLane, 100, kRecorded},
                          Part{OpKind::kHost, 500, kRecorded},
                          Part{OpKind::kWork, 200, kAssumed},
                          Part{OpKind::kHost, 50, kMeasured}));
}

TEST(HostTimesTest, OnlySourcesChange) {
  HandTrace with = Training(true);
  with.trace.host_times = {{kMeasured, 10, 1300}, {kRecorded, 1310, 5000}};
  const auto a = BuildProgram(Training(true).trace), b = BuildProgram(with.trace);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(FirstDifference(*a->program, *b->program), "");
  EXPECT_EQ(TotalsOf(*a->program).host_ns, TotalsOf(*b->program).host_ns);
}

TEST(HostTimesTest, OnARealGpuTheTimesOfTheTraceAreAllThatCounts) {
  HandTrace hand = Training(false);
  const std::vector<Part> without = HostTimes(hand.trace);
  hand.trace.host_times = {{kMeasured, 0, 1000}};
  EXPECT_EQ(HostTimes(hand.trace), without);
}

TEST(HostTimesTest, MeasuredTimesOfTwoRunsNeedNotBeEqual) {
  const auto program = [](Source source, int64_t ns) {
    Program program(/*retain=*/true);
    program.Append(Op{.kind = OpKind::kHost, .host_source = source, .host_ns = ns});
    program.Append(Op{
        .kind = OpKind::kHostWaitLane, .host_source = Source::kAssumed, .host_ns = 7});
    program.Append(Op{.kind = OpKind::kHost, .host_source = source, .host_ns = 2 * ns});
    program.Close();
    return program;
  };
  const auto differ = [&](Source source, bool measured_host_times) {
    ProgramComparison compare;
    compare.measured_host_times = measured_host_times;
    return !FirstDifference(program(source, 1000), program(source, 1001), compare)
                .empty();
  };
  EXPECT_TRUE(differ(kMeasured, true));
  EXPECT_FALSE(differ(kMeasured, false));
  EXPECT_TRUE(differ(kRecorded, false));
}

}  // namespace
}  // namespace vrank::graph
