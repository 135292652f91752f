// What a rank does more or less often, of two emulations.

#include "tools/compare/work_totals.h"

#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::tools {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P3(Changed, name, calls, time_ns, "") {
  return arg.name == name && testing::Matches(DoubleEq(calls))(arg.calls) &&
         testing::Matches(DoubleEq(time_ns))(arg.time_ns);
}

// Two real ranks, four iterations, start-up.
WorkTotals Sample() {
  WorkTotals run;
  run.iterations = 4;
  run.ranks = 2;
  run.rows[{"kernel", "gemm"}] = {80, 8000};
  run.rows[{"kernel", "initialise"}] = {2, 50};
  run.rows[{"communication", "all_reduce"}] = {16, 1600};
  return run;
}

TEST(WorkTotalsTest, ChangesArePerIterationAndRealRank) {
  WorkTotals updated = Sample();
  updated.rows[{"communication", "all_reduce"}] = {16 + 8 * 3, 1600 + 8 * 30};
  updated.rows[{"kernel", "norm"}] = {8, 8 * 500};
  updated.rows.erase({"kernel", "gemm"});
  const WorkChanges changes = FindWorkChanges(Sample(), updated);
  EXPECT_TRUE(changes.per_iteration);
  EXPECT_THAT(changes.rows,
              ElementsAre(Changed("gemm", -10.0, -1000.0), Changed("norm", 1.0, 500.0),
                          Changed("all_reduce", 3.0, 30.0)));
}

TEST(WorkTotalsTest, RunsOfOtherNumbersOfIterationsAreComparedAsAWhole) {
  WorkTotals updated = Sample();
  updated.iterations = 3;
  updated.rows[{"kernel", "gemm"}].calls += 2;
  const WorkChanges changes = FindWorkChanges(Sample(), updated);
  EXPECT_FALSE(changes.per_iteration);
  EXPECT_THAT(changes.rows, ElementsAre(Changed("gemm", 1.0, 0.0)));
}

TEST(WorkTotalsTest, WhatIsEqualPerRankIsNoChange) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    WorkTotals one;
    one.iterations = static_cast<int64_t>(random() % 9 + 1);
    one.ranks = 1;
    for (int row = 0; row < 5; ++row)
      one.rows[{"kernel", std::to_string(row)}] = {
          static_cast<int64_t>(random() % 1000), static_cast<int64_t>(random() >> 20)};
    const auto copies = static_cast<int64_t>(random() % 7 + 1);
    WorkTotals many = one;
    many.ranks = copies;
    for (auto& [key, total] : many.rows)
      total = {total.calls * copies, total.time_ns * copies};
    EXPECT_THAT(FindWorkChanges(one, many).rows, IsEmpty());
  }
}

TEST(WorkTotalsTest, AnOldResultHasNoRows) {
  EXPECT_THAT(FindWorkChanges({}, Sample()).rows, IsEmpty());
  EXPECT_THAT(FindWorkChanges(Sample(), {}).rows, IsEmpty());
}

}  // namespace
}  // namespace vrank::tools
