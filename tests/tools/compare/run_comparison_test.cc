#include "tools/compare/run_comparison.h"

#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

RunRecord SomeRecord() {
  RunRecord record;
  record.iterations[0] = {{{.ns = 10}, {.ns = 20}}};
  record.ends[{"world", 0, protocol::kNone, 0, 0}] = 15;
  record.ends[{"world", 0, 1, 1, 0}] = 17;
  record.peaks[0] = {1000, 300, 200};
  record.output[0] = {"a", "b"};
  return record;
}

TEST(RunComparisonTest, EqualRunsAreEqual) {
  const RunComparison same = Compare(SomeRecord(), SomeRecord());
  EXPECT_TRUE(same.Equal());
  EXPECT_EQ(same.iterations, 1u);
  EXPECT_EQ(same.collectives, 1u);
  EXPECT_EQ(same.transfers, 1u);
}

TEST(RunComparisonTest, FindsEveryKindOfDifference) {
  RunRecord other = SomeRecord();
  other.iterations[0][0].end.ns = 18;
  EXPECT_EQ(Compare(SomeRecord(), other).max_iteration_error_ns, 2);
  other = SomeRecord();
  other.ends[{"world", 0, 1, 1, 0}] = 20;
  EXPECT_EQ(Compare(SomeRecord(), other).max_collective_error_ns, 3);
  other = SomeRecord();
  other.peaks[0] = {998, 300, 200};
  EXPECT_EQ(Compare(SomeRecord(), other).peak_memory_error_bytes, 2);
  other.peaks[0] = {1000, 305, 200};  // of which the program holds less
  EXPECT_EQ(Compare(SomeRecord(), other).peak_memory_error_bytes, 5);
  other.peaks[0] = {1000, 300, 193};
  EXPECT_EQ(Compare(SomeRecord(), other).peak_memory_error_bytes, 7);
  other = SomeRecord();
  other.output[0] = {"a", "c", "d"};
  EXPECT_EQ(Compare(SomeRecord(), other).output_differences, 2u);
  other = SomeRecord();
  other.ends[{"world", 0, protocol::kNone, 0, 1}] = 30;
  other.iterations[0].clear();
  EXPECT_EQ(Compare(SomeRecord(), other).unmatched, 2u);
  EXPECT_FALSE(Compare(SomeRecord(), other).Equal());
}

}  // namespace
}  // namespace vrank::tools
