// What a raw trace leaves apart, joined by reading it.

#include <string>

#include <gtest/gtest.h>

#include "graph/trace/canonical_order.h"
#include "tests/graph/trace/memory_file.h"
#include "tests/graph/trace/raw_file.h"

namespace vrank::graph {
namespace {

RankTrace Read(RawFile* file) {
  auto read = ReadBytes(file->End().Bytes());
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : RankTrace();
}

trace::Call CallAt(uint32_t correlation, uint32_t thread, int64_t start, int64_t end) {
  trace::Call call{};
  call.correlation = correlation;
  call.thread = thread;
  call.start_ns = start;
  call.end_ns = end;
  return call;
}

trace::Work WorkOf(uint32_t correlation, uint32_t stream) {
  trace::Work work{};
  work.correlation = correlation;
  work.stream = stream;
  return work;
}

TEST(RowJoinerTest, TakesTheDriverCallsOfTheRuntimeForTheRuntimes) {
  RawFile file;
  file.Add(trace::Kind::kCall, CallAt(5, 9, 100, 200))
      .Add(trace::Kind::kCall, CallAt(6, 9, 120, 180), {}, trace::kDriverCall)
      .Add(trace::Kind::kCall, CallAt(7, 9, 200, 220), {}, trace::kDriverCall)
      .Add(trace::Kind::kCall, CallAt(8, 10, 130, 140), {}, trace::kDriverCall)
      .Add(trace::Kind::kWork, WorkOf(6, 3))
      .Add(trace::Kind::kWork, WorkOf(7, 3));
  const RankTrace trace = Read(&file);
  ASSERT_EQ(trace.calls.size(), 3u);  // 6 is inside of 5; 7 only touches it
  EXPECT_EQ(trace.calls[0].correlation, 5u);
  EXPECT_EQ(trace.work[0].correlation, 5u);
  EXPECT_EQ(trace.work[1].correlation, 7u);
}

TEST(RowJoinerTest, KeepsCallsThatTakeNoTime) {
  RawFile file;
  file.Add(trace::Kind::kCall, CallAt(1, 0, 10, 10))
      .Add(trace::Kind::kCall, CallAt(2, 0, 10, 10), {}, trace::kDriverCall);
  EXPECT_EQ(Read(&file).calls.size(), 2u);
}

TEST(RowJoinerTest, JoinsOperationsToTheirLaunches) {
  RawFile file;
  trace::Collective call{};
  call.operation_id = 31;
  call.thread = 777;  // as the system numbers it
  trace::ExternalId before{}, launch{};
  before.id = launch.id = 31;
  before.correlation = 4;  // an event record under the same id
  launch.correlation = 5;
  trace::Creation init{};
  init.thread = 777;
  file.Add(trace::Kind::kCollective, call)
      .Add(trace::Kind::kCreation, init)
      .Add(trace::Kind::kExternalId, launch)
      .Add(trace::Kind::kExternalId, before)
      .Add(trace::Kind::kCall, CallAt(3, 50, 1, 2))
      .Add(trace::Kind::kCall, CallAt(5, 60, 10, 20))
      .Add(trace::Kind::kWork, WorkOf(5, 13));
  const RankTrace trace = Read(&file);
  ASSERT_EQ(trace.operations.size(), 1u);
  EXPECT_EQ(trace.operations[0].correlation, 5u);
  EXPECT_EQ(trace.operations[0].stream, 13u);
  EXPECT_EQ(trace.nccl_calls[0].thread, 1u);  // that of the launch: CUPTI's 60
}

TEST(RowJoinerTest, TurnsPoolSizesIntoDifferences) {
  RawFile file;
  const auto pool = [](int64_t time, uint64_t bytes) {
    trace::Pool record{};
    record.address = 7;
    record.bytes = bytes;
    record.time_ns = time;
    return record;
  };
  file.Add(trace::Kind::kPool, pool(30, 10))
      .Add(trace::Kind::kPool, pool(10, 64))
      .Add(trace::Kind::kPool, pool(20, 64));
  const RankTrace trace = Read(&file);
  ASSERT_EQ(trace.reserves.size(), 2u);
  EXPECT_EQ(trace.reserves[0].delta_bytes, 64);
  EXPECT_EQ(trace.reserves[1].delta_bytes, -54);
}

TEST(RowJoinerTest, NamesTheEndsOfRanges) {
  RawFile file;
  trace::Range begin{}, end{};
  begin.id = end.id = 9;
  begin.name = 1;
  end.time_ns = 5;
  file.Name(1, "step").Add(trace::Kind::kRange, begin);
  file.Add(trace::Kind::kRange, end, {}, trace::kRangeEnds);
  const RankTrace trace = Read(&file);
  ASSERT_EQ(trace.ranges.size(), 2u);
  EXPECT_TRUE(trace.ranges[0].begin);
  EXPECT_EQ(trace.names[trace.ranges[1].name], "step");
}

TEST(CanonicalOrderTest, KeepsNoAddressOfTheHostAndAllDistancesOnTheDevice) {
  RawFile file;
  const auto memory = [](int64_t time, uint64_t address) {
    trace::Memory record{};
    record.address = address;
    record.time_ns = time;
    return record;
  };
  file.Add(trace::Kind::kMemory, memory(1, 0x7f1234567000), {}, trace::kHostMemory)
      .Add(trace::Kind::kMemory, memory(2, 0x7f1234567000), {},
           trace::kHostMemory | trace::kReleased)
      .Add(trace::Kind::kMemory, memory(3, 0x7f1234567000), {}, trace::kHostMemory)
      .Add(trace::Kind::kMemory, memory(4, 0xa00000600))
      .Add(trace::Kind::kMemory, memory(5, 0xa00000200));
  const RankTrace trace = Read(&file);
  EXPECT_EQ(trace.memory[0].address, 1u);
  EXPECT_EQ(trace.memory[1].address, 1u);
  EXPECT_EQ(trace.memory[2].address, 2u);
  EXPECT_EQ(trace.memory[3].address - trace.memory[4].address, 0x400u);
}

TEST(CanonicalOrderTest, BeginsWithTheFirstTimeWhereNoOriginIsKnown) {
  RankTrace trace;
  trace.calls = {
      {.start_ns = 1'700'000'000'000'000'005, .end_ns = 1'700'000'000'000'000'009}};
  trace.work = {TracedWork()};  // no times
  MoveTimes(std::nullopt, &trace);
  EXPECT_EQ(trace.calls[0].start_ns, 0);
  EXPECT_EQ(trace.calls[0].end_ns, 4);
  EXPECT_EQ(trace.work[0].start_ns, 0);
}

}  // namespace
}  // namespace vrank::graph
