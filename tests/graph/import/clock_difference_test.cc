// Clocks of recordings that differ, as far as collectives show it.

#include "graph/import/clock_difference.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

using testing::HasSubstr;
using Kind = SimulatedStep::Kind;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kReduceNs = 100'000;

// Three ranks that do the same, and meet three times.
SimulatedRun Run() {
  SimulatedRun run;
  for (int rank = 0; rank < 3; ++rank) {
    SimulatedRun::Rank one{10 * kMs, {}};
    for (int i = 0; i < 3; ++i) {
      one.steps.push_back({Kind::kHost, kMs});
      one.steps.push_back({Kind::kAllReduce, kReduceNs, SimulatedRun::kNcclStream});
      one.steps.push_back({Kind::kHost, 20 * kMs});
    }
    run.ranks.push_back(one);
  }
  return run;
}

void Shift(int64_t ns, SimulatedRun::Rank* run, SimulatedTimes::Rank* times) {
  run->begin_ns += ns;
  times->end_ns += ns;
  for (SimulatedTimes::Work& work : times->works)
    work = {work.call_ns + ns, work.begin_ns + ns, work.end_ns + ns};
  for (SimulatedTimes::Call& call : times->calls)
    call = {call.begin_ns + ns, call.end_ns + ns};
}

// The clock of rank 1 is ahead by `ns`.
absl::StatusOr<ImportedRun> ImportShifted(int64_t ns) {
  SimulatedRun run = Run();
  SimulatedTimes times = Simulate(run);
  Shift(ns, &run.ranks[1], &times.ranks[1]);
  const ProfileFiles files;
  KinetoImportOptions import;
  for (int rank = 0; rank < 3; ++rank)
    import.files.push_back(files.Write("rank" + std::to_string(rank) + ".json",
                                       ProfileOf(run, times, rank)));
  return ImportKineto(import);
}

const ExecutionGraph::Loss* LossOf(const ImportedRun& import,
                                   const std::string& subject) {
  for (const ExecutionGraph::Loss& loss : import.graph.losses)
    if (loss.name == "clocks_of_ranks_differ" &&
        loss.subject.find(subject) != std::string::npos)
      return &loss;
  return nullptr;
}

TEST(ClockDifferenceTest, IsSilentWhereClocksAgree) {
  for (const int64_t ns : {int64_t{0}, kReduceNs / 2}) {
    const auto import = ImportShifted(ns);
    ASSERT_TRUE(import.ok()) << import.status();
    EXPECT_TRUE(import->clocks.empty()) << ns;
    EXPECT_EQ(LossOf(*import, ""), nullptr);
  }
}

// All that shows is what exceeds the time that the collective takes.
TEST(ClockDifferenceTest, StatesTheLeastDifferenceForEachRank) {
  for (const int64_t ns : {5 * kMs, -5 * kMs}) {
    const auto import = ImportShifted(ns);
    ASSERT_TRUE(import.ok()) << import.status();
    ASSERT_EQ(import->clocks.size(), 3u);
    const int64_t least = 5 * kMs - kReduceNs;
    for (const int32_t rank : {0, 1, 2}) {
      const ClockDifference& clock = import->clocks.at(rank);
      EXPECT_EQ(clock.at_least_ns, (rank == 1) == (ns > 0) ? least : -least) << rank;
      EXPECT_EQ(clock.against == 1, rank != 1);
      EXPECT_EQ(clock.collectives, 3u);
      const ExecutionGraph::Loss* loss =
          LossOf(*import, "rank " + std::to_string(rank) + ", at least 4.900 ms");
      ASSERT_NE(loss, nullptr);
      EXPECT_EQ(loss->count, 3u);
    }
    EXPECT_THAT(DescribeClock(1, import->clocks.at(1)),
                HasSubstr(ns > 0 ? "ahead of rank" : "behind rank"));
  }
}

// Lengths are each recording's own: what the ranks do is what it was.
TEST(ClockDifferenceTest, ChangesNothingElse) {
  const auto even = ImportShifted(0), shifted = ImportShifted(5 * kMs);
  ASSERT_TRUE(even.ok() && shifted.ok());
  for (size_t rank = 0; rank < 3; ++rank) {
    const Program& a = *even->graph.programs[rank];
    const Program& b = *shifted->graph.programs[rank];
    ASSERT_EQ(a.size(), b.size());
    int different = 0;
    for (uint64_t i = 0; i < a.size(); ++i)
      different += a.op(i).value != b.op(i).value || a.op(i).host_ns != b.op(i).host_ns;
    EXPECT_LE(different, rank == 1 ? 1 : 0);  // where it begins
  }
}

}  // namespace
}  // namespace vrank::graph
