#include "graph/calibration/nccl_tests_log.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using testing::HasSubstr;

std::string Ranks(int ranks, int hosts) {
  std::string text = "# Using devices\n";
  for (int i = 0; i < ranks; ++i)
    text += "#  Rank  " + std::to_string(i) + " Group  0 Pid   " +
            std::to_string(4000 + i) + " on     node-" +
            std::to_string(i * hosts / ranks) + " device  " + std::to_string(i) +
            " [0x1b] NVIDIA H100 80GB HBM3\n";
  return text;
}

// As all_reduce_perf prints (src/common.cu).
constexpr char kHead[] =
    "#\n#                                                              out-of-place    "
    "    "
    "               in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw "
    "#wrong "
    "    time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)     "
    "   "
    "    (us)  (GB/s)  (GB/s)\n";
constexpr char kRows[] =
    "           0             0     float     sum      -1     0.16    0.00    0.00     "
    " 0 "
    "    0.15    0.00    0.00      0\n"
    "           8             2     float     sum      -1    24.70    0.00    0.00     "
    " 0 "
    "    24.60    0.00    0.00      0\n"
    "     1048576        262144     float     sum      -1    58.10   18.05   33.84     "
    " 0 "
    "    57.90   18.11   33.96      0\n"
    "  1073741824     268435456     float     sum      -1   4210.5  255.02  478.16    "
    "N/A "
    "   4211.0  254.99  478.10    N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 170.2\n";

TEST(NcclTestsLogTest, ReadsSizesAndTimesOutOfPlace) {
  const auto tables =
      ReadNcclTestsLog("logs/all_reduce.log", Ranks(16, 2) + kHead + kRows, "");
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  const MeasuredTable& table = tables->front();
  EXPECT_EQ(table.operation, "all_reduce");
  EXPECT_EQ(table.ranks, 16);
  EXPECT_EQ(table.hosts, 2);
  ASSERT_EQ(table.rows.size(), 3u);  // without the row of no bytes
  EXPECT_EQ(table.rows[1].bytes, 1048576u);
  EXPECT_EQ(table.rows[1].us, 58.1);
}

TEST(NcclTestsLogTest, TheLogKnowsItsOperationBetterThanItsName) {
  const std::string text =
      "# Collective test starting: reduce_scatter_perf\n" + Ranks(8, 1) + kHead + kRows;
  EXPECT_EQ(ReadNcclTestsLog("all_reduce.log", text, "")->front().operation,
            "reduce_scatter");
  EXPECT_EQ(ReadNcclTestsLog("a.log", text, "all_gather")->front().operation,
            "all_gather");
}

TEST(NcclTestsLogTest, SeveralTestsMayStandInOneFile) {
  const std::string text =
      "# Collective test starting: all_gather_perf\n" + Ranks(8, 1) + kHead + kRows +
      "# Collective test starting: alltoall_perf\n" + Ranks(16, 2) + kHead + kRows;
  const auto tables = ReadNcclTestsLog("x", text, "");
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ((*tables)[0].operation, "all_gather");
  EXPECT_EQ((*tables)[0].ranks, 8);
  EXPECT_EQ((*tables)[1].operation, "alltoall");
  EXPECT_EQ((*tables)[1].ranks, 16);
  EXPECT_EQ((*tables)[1].hosts, 2);
}

TEST(NcclTestsLogTest, TagsOfMpirunAreLeftOut) {
  std::string tagged;
  std::string line;
  for (const char c : Ranks(8, 1) + kHead + kRows) {
    line += c;
    if (c == '\n') {
      tagged += "[1,0]<stdout>:" + line;
      line.clear();
    }
  }
  const auto tables = ReadNcclTestsLog("all_reduce", tagged, "");
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->front().rows.size(), 3u);
}

TEST(NcclTestsLogTest, WhatIsMissingIsNamed) {
  const auto refusal = [](const std::string& file, const std::string& text) {
    return std::string(ReadNcclTestsLog(file, text, "").status().message());
  };
  EXPECT_THAT(refusal("a.log", Ranks(8, 1) + kHead + kRows),
              HasSubstr("all_reduce=a.log"));
  EXPECT_THAT(refusal("all_reduce.log", std::string(kHead) + kRows),
              HasSubstr("no rank is listed"));
  EXPECT_THAT(refusal("all_reduce.log", Ranks(3, 2) + kHead + kRows),
              HasSubstr("3 ranks on 2 hosts"));
  EXPECT_THAT(refusal("all_reduce.log", "hello\n"), HasSubstr("there is no table"));
  EXPECT_THAT(refusal("all_reduce.log", Ranks(8, 1) + kHead),
              HasSubstr("there is no table"));
}

}  // namespace
}  // namespace vrank::graph
