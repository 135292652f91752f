#include "graph/file/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

using ::testing::HasSubstr;

KernelTable::Key KeyOf(const std::string& name, uint32_t grid) {
  return {name, {grid, 1, 1}, {128, 1, 1}, 0};
}

KernelTable Sample() {
  KernelTable table("h100");
  for (const int64_t ns : {400, 100, 300, 200})
    table.Add(KeyOf("_Z1av", 8), ns);
  table.AddSource("rank000000.vtrace");
  table.Finish();
  return table;
}

TEST(KernelTableTest, KeepsMedianMinimumAndMean) {
  const KernelTable table = Sample();
  const KernelTable::Row& row = table.rows().begin()->second;
  EXPECT_EQ(row.count, 4u);
  EXPECT_EQ(row.median_ns, 200);
  EXPECT_EQ(row.min_ns, 100);
  EXPECT_EQ(row.mean_ns, 250);
}

TEST(KernelTableTest, FindsTheVeryLaunchOnly) {
  const KernelTable table = Sample();
  const uint32_t grid[3] = {8, 1, 1}, other[3] = {9, 1, 1}, block[3] = {128, 1, 1};
  EXPECT_EQ(table.Find("_Z1av", grid, block, 0), 200);
  EXPECT_EQ(table.Find("_Z1av", other, block, 0), std::nullopt);
  EXPECT_EQ(table.Find("_Z1av", grid, block, 16), std::nullopt);
  EXPECT_EQ(table.Find("_Z1bv", grid, block, 0), std::nullopt);
}

TEST(KernelTableTest, MergesTablesOfOneGpu) {
  KernelTable table = Sample();
  KernelTable more("h100");
  more.Add(KeyOf("_Z1av", 8), 50);
  more.Add(KeyOf("_Z1bv", 1), 70);
  more.Finish();
  ASSERT_TRUE(table.Merge(more).ok());
  EXPECT_EQ(table.rows().size(), 2u);
  const KernelTable::Row& row = table.rows().begin()->second;
  EXPECT_EQ(row.count, 5u);
  EXPECT_EQ(row.median_ns, 200);
  EXPECT_EQ(row.min_ns, 50);
  EXPECT_EQ(row.mean_ns, 210);
  EXPECT_THAT(std::string(table.Merge(KernelTable("a100")).message()),
              HasSubstr("the kernel table is of GPU 'a100', not of 'h100'"));
}

TEST(KernelTableTest, ReadsBackWhatWasWritten) {
  const std::string bytes = Sample().Serialize();
  const auto read = KernelTable::Parse("t.vkernels", bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->gpu(), "h100");
  EXPECT_EQ(read->sources().size(), 1u);
  EXPECT_EQ(read->Serialize(), bytes);
}

// A kernel that takes no time, or a mean below the least.
TEST(KernelTableTest, RefusesImpossibleTimes) {
  KernelTable table("h100");
  table.Add(KeyOf("_Z4freev", 8), 0);
  table.Finish();
  EXPECT_THAT(
      std::string(
          KernelTable::Parse("t.vkernels", table.Serialize()).status().message()),
      HasSubstr(
          "kernel table 't.vkernels': the row of '_Z4freev' makes no sense (count "
          "1, least 0 ns"));
}

TEST(KernelTableTest, RefusesBrokenFiles) {
  const std::string good = Sample().Serialize();
  EXPECT_THAT(std::string(KernelTable::Parse("t.vkernels", "").status().message()),
              HasSubstr("kernel table 't.vkernels': the file is empty"));
  EXPECT_THAT(std::string(KernelTable::Read("/nowhere").status().message()),
              HasSubstr("No such file"));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(KernelTable::Parse("t", good.substr(0, size)).ok()) << size;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    EXPECT_FALSE(KernelTable::Parse("t", bad).ok()) << at;
  }
}

}  // namespace
}  // namespace vrank::graph
