#include "graph/trace/context_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/context_memory.h"

namespace vrank::graph {
namespace {

using testing::ElementsAre;

constexpr auto kStream = static_cast<int64_t>(kStreamBytes);

RankTrace Trace() {
  RankTrace trace;
  trace.session.context_bytes = 1000;
  trace.contexts = {{.context = 1, .correlation = 1, .time_ns = 15, .code_bytes = 300},
                    {.context = 1, .destroyed = true, .correlation = 5, .time_ns = 55}};
  for (uint32_t i = 1; i <= 5; ++i) {
    TracedCall call;
    call.correlation = i;
    call.start_ns = 10 * i;
    call.end_ns = 10 * i + 5;
    trace.calls.push_back(call);
  }
  return trace;
}

std::vector<std::tuple<int64_t, uint32_t, int64_t>> Reserves(const RankTrace& trace) {
  std::vector<std::tuple<int64_t, uint32_t, int64_t>> rows;
  for (const TracedReserve& row : trace.reserves) {
    EXPECT_EQ(row.owner, MemoryOwner::kContext);
    rows.emplace_back(row.delta_bytes, row.correlation, row.time_ns);
  }
  return rows;
}

TEST(ContextMemoryTest, AContextHoldsItsOwnPartAndItsCode) {
  RankTrace trace = Trace();
  AddContextMemory(&trace);
  EXPECT_THAT(Reserves(trace),
              ElementsAre(std::tuple(1300, 1u, 15), std::tuple(-1300, 5u, 55)));
}

TEST(ContextMemoryTest, AStreamHoldsMemoryBetweenTheEndsOfItsCalls) {
  RankTrace trace = Trace();
  trace.contexts.clear();
  trace.streams = {{.context = 1, .stream = 7, .correlation = 2},
                   // As the tracer notes it, without the kind.
                   {.context = 1,
                    .stream = 7,
                    .kind = TracedStream::Kind::kLegacyDefault,
                    .destroyed = true,
                    .correlation = 4}};
  AddContextMemory(&trace);
  EXPECT_THAT(Reserves(trace),
              ElementsAre(std::tuple(kStream, 2u, 25), std::tuple(-kStream, 4u, 45)));
}

TEST(ContextMemoryTest, DefaultStreamsAndEarlierOnesTakeNothing) {
  RankTrace trace = Trace();
  trace.contexts.clear();
  trace.streams = {
      {.stream = 1, .kind = TracedStream::Kind::kLegacyDefault, .correlation = 2},
      {.stream = 2, .kind = TracedStream::Kind::kPerThreadDefault, .correlation = 2},
      {.stream = 3, .kind = TracedStream::Kind::kNonBlocking, .correlation = 0},
      {.stream = 1, .destroyed = true, .correlation = 4}};
  AddContextMemory(&trace);
  EXPECT_TRUE(trace.reserves.empty());
}

TEST(ContextMemoryTest, NothingIsAddedWhereNoSizeIsKnown) {
  RankTrace trace = Trace();
  trace.session.context_bytes = 0;
  trace.streams = {{.context = 1, .stream = 7, .correlation = 2}};
  AddContextMemory(&trace);
  EXPECT_TRUE(trace.reserves.empty());
}

}  // namespace
}  // namespace vrank::graph
