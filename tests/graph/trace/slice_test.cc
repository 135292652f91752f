// What FinishSlice makes of a raw file: a context's memory, and records that are
// missing.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/trace/trace_file.h"
#include "tests/graph/trace/raw_file.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SliceTest, AContextTakesItsMemoryWhereItIsMade) {
  trace::Call call{};
  call.correlation = 1;
  call.thread = 77;
  call.start_ns = 100;
  call.end_ns = 200;
  RawFile raw;
  raw.Add(trace::Kind::kCall, call);
  trace::Context context{};
  context.context = 1;
  context.thread = 77;
  for (const int64_t time_ns : {100, 150, 200, 250}) {
    context.time_ns = time_ns;
    raw.Add(trace::Kind::kContext, context);
  }
  context.thread = 78;
  context.time_ns = 160;
  raw.Add(trace::Kind::kContext, context, {}, trace::kDestroyed);
  const std::string path = ::testing::TempDir() + "context.vtrace";
  std::ofstream(path + ".raw") << raw.End().Bytes();
  TraceSession session;
  session.context_bytes = 4096;
  ASSERT_TRUE(FinishSlice(path + ".raw", session, 0, {}, path).ok());
  const auto read = ReadTrace(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->contexts.empty());
  std::vector<std::tuple<int64_t, uint32_t, int64_t>> reserves;
  for (const TracedReserve& row : read->reserves) {
    EXPECT_EQ(row.owner, MemoryOwner::kContext);
    reserves.emplace_back(row.time_ns, row.correlation, row.delta_bytes);
  }
  // Before the call, in it, as its last deed, after it; another thread is in no call.
  using Row = std::tuple<int64_t, uint32_t, int64_t>;
  EXPECT_THAT(reserves,
              ElementsAre(Row{100, 0, 4096}, Row{150, 1, 4096}, Row{160, 0, -4096},
                          Row{200, 1, 4096}, Row{250, 0, 4096}));
}

TEST(SliceTest, RefusesASliceWhoseRecordsWereTaken) {
  const std::string path = ::testing::TempDir() + "taken.vtrace";
  RawFile raw;
  raw.Add(trace::Kind::kEnd, trace::End{}, {}, trace::kRecordsTaken);
  std::ofstream(path + ".raw") << raw.Bytes();
  const absl::Status finished = FinishSlice(path + ".raw", TraceSession(), 0, {}, path);
  EXPECT_EQ(finished.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(finished.message()), HasSubstr("its profiler"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace vrank::graph
