// Collectives of recordings that do not show the same: what both have is used, the rest
// is counted, and ranks with nothing in common are refused.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;
constexpr int kCollectives = 3;  // of a step

struct Recorded {
  int first_step = 1, steps = 3;
  bool numbered = false;
  std::set<std::pair<int, int>> lost = {};  // (step, collective)
  int64_t clock_us = 0;
  int64_t elements = 1024;
};

// A rank of a job whose steps take 10 ms: three times a kernel, an all-reduce of 1 ms.
HandProfile Profile(int rank, int world_size, const Recorded& recorded) {
  HandProfile profile(rank, world_size);
  std::string ranks;
  for (int i = 0; i < world_size; ++i)
    ranks += fmt::format("{}{}", i == 0 ? "" : ", ", i);
  for (int step = recorded.first_step; step < recorded.first_step + recorded.steps;
       ++step) {
    const int64_t begin_us = 10'000 * step + recorded.clock_us;
    profile.Step(step, begin_us, 10'000);
    for (int i = 0; i < kCollectives; ++i) {
      const int64_t launch_us = begin_us + 100 + 3000 * i;
      profile.Kernel("gemm", launch_us, launch_us + 10, 1000);
      if (recorded.lost.count({step, i}) != 0) {
        profile.Call("cudaLaunchKernel", launch_us + 20, 5);
        continue;
      }
      const std::string sequence =
          recorded.numbered ? fmt::format(R"(, "Seq": {})", kCollectives * step + i)
                            : "";
      profile.Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", launch_us + 20,
                     launch_us + 1010, 1000, 7,
                     fmt::format(R"("Collective name": "allreduce", "dtype": "Float", )"
                                 R"("In msg nelems": {0}, "Out msg nelems": {0}, )"
                                 R"("Group size": {1}, "Process Group Name": "0", )"
                                 R"("Process Group Ranks": "[{2}]"{3})",
                                 recorded.elements, world_size, ranks, sequence));
    }
    profile.Call("cudaDeviceSynchronize", begin_us + 8200, 1000);
  }
  return profile;
}

absl::StatusOr<ImportedRun> ImportAll(const std::vector<Recorded>& ranks) {
  const ProfileFiles files;
  KinetoImportOptions options;
  for (size_t i = 0; i < ranks.size(); ++i)
    options.files.push_back(files.Write(
        fmt::format("{}.json", i),
        Profile(static_cast<int>(i), static_cast<int>(ranks.size()), ranks[i]).Text()));
  return ImportKineto(options);
}

using Counts = std::map<std::string, uint64_t>;
Counts Losses(const ImportedRun& run) {
  Counts counts;
  for (const ExecutionGraph::Loss& loss : run.graph.losses)
    if (loss.name != "launches_without_work")
      counts[loss.name] += loss.count;
  return counts;
}

size_t Coupled(const ReplayedRank& rank) {
  return static_cast<size_t>(
      std::count(rank.is_collective.begin(), rank.is_collective.end(), true));
}

// A kernel that the profiler lost on one rank of four is missed there, not everywhere.
TEST(ImportedPairingTest, OneMissingKernelLeavesTheOthersCoupled) {
  for (const bool numbered : {false, true})
    for (int lost = 0; lost < kCollectives; ++lost) {
      SCOPED_TRACE(fmt::format("{}, {}", numbered, lost));
      Recorded whole{.numbered = numbered}, part = whole;
      part.lost = {{2, lost}};
      const auto run = ImportAll({whole, whole, part, whole});
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(Losses(*run), (Counts{{"collectives_without_counterparts", 3}}));
      const auto replayed = ReplayImported(run->graph);
      ASSERT_TRUE(replayed.ok()) << replayed.status();
      for (const auto& [rank, one] : *replayed) {
        EXPECT_EQ(Coupled(one), 8u) << rank;
        EXPECT_EQ(one.iterations_ns.size(), 3u);
      }
    }
}

// ... also where both ranks lost one, and where their clocks differ.
TEST(ImportedPairingTest, MissingKernelsOfSeveralRanksAreToldApart) {
  Recorded one, other{.clock_us = 5'000};
  one.lost = {{1, 0}};
  other.lost = {{1, 2}};
  const auto run = ImportAll({one, other});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Losses(*run).at("collectives_without_counterparts"), 2u);
  const auto replayed = ReplayImported(run->graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(Coupled(replayed->at(0)), 7u);
}

// Steps 1 to 3 of one rank and 2 to 4 of the other: 2 and 3 are iterations of the job.
TEST(ImportedPairingTest, StepsThatAllRanksHaveAreIterations) {
  for (const bool numbered : {false, true}) {
    const Recorded early{.first_step = 1, .numbered = numbered};
    const Recorded late{.first_step = 2, .numbered = numbered};
    const Recorded two{.first_step = 2, .steps = 2, .numbered = numbered};
    for (const auto& [other, unpaired, steps] :
         {std::tuple(late, 6u, 2u), std::tuple(two, 3u, 1u)}) {
      auto run = ImportAll({early, other});
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(Losses(*run), (Counts{{"collectives_without_counterparts", unpaired},
                                      {"steps_of_ranks_differ", steps}}));
      EXPECT_THAT(run->clocks, IsEmpty());
      const auto before = ReplayImported(run->graph);
      ASSERT_TRUE(before.ok()) << before.status();
      for (const RecordedRank& rank : run->graph.recorded_ranks) {
        ASSERT_EQ(rank.iterations.size(), 2u);
        EXPECT_EQ(rank.iterations[0].name, "ProfilerStep#2");
        EXPECT_EQ(rank.iterations[1].name, "ProfilerStep#3");
        EXPECT_THAT(before->at(rank.rank).iterations_ns,
                    ElementsAre(10 * kMs, 10 * kMs));
      }
      // The kernel before rank 1's first collective holds up rank 0 in the same step.
      Lengthen(1, 0, 5 * kMs, &run->graph);
      const auto after = ReplayImported(run->graph);
      ASSERT_TRUE(after.ok()) << after.status();
      EXPECT_GT(after->at(0).iterations_ns[0], 12 * kMs);
      EXPECT_EQ(after->at(0).iterations_ns, after->at(1).iterations_ns);
    }
  }
}

// The same calls of ranks that did not make them together.
TEST(ImportedPairingTest, RanksWithoutASharedCollectiveAreRefused) {
  const auto error = [](const Recorded& zero, const Recorded& one) {
    return ImportAll({zero, one}).status().ToString();
  };
  Recorded other_size{.elements = 4096};
  EXPECT_THAT(error({}, other_size),
              AllOf(HasSubstr("all_reduce of 1024"), HasSubstr("all_reduce of 4096"),
                    HasSubstr("'0' (ranks 0,1)"), HasSubstr("one run")));
  Recorded nothing;
  for (int step = 1; step <= 3; ++step)
    for (int i = 0; i < kCollectives; ++i)
      nothing.lost.insert({step, i});
  EXPECT_THAT(error({}, nothing),
              AllOf(HasSubstr("9 collectives on rank 0"), HasSubstr("none on rank 1"),
                    HasSubstr("one run")));
  EXPECT_THAT(error({.numbered = true}, {.first_step = 4, .numbered = true}),
              AllOf(HasSubstr("none of them is of one step or sequence number"),
                    HasSubstr("one run")));
}

// Of a step in which most parts have no counterpart, nothing is believed.
TEST(ImportedPairingTest, AStepOfWhichMostIsMissingCouplesNothing) {
  Recorded few;
  few.lost = {{1, 0}, {1, 1}, {2, 1}};
  const auto run = ImportAll({{}, few});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(Losses(*run).at("collectives_without_counterparts"), 3u + 1u + 1u);
  Recorded fewer{.steps = 1};
  fewer.lost = {{1, 0}, {1, 1}};
  EXPECT_THAT(ImportAll({{.steps = 1}, fewer}).status().ToString(),
              AllOf(HasSubstr("3 collectives on rank 0"), HasSubstr("1 on rank 1"),
                    HasSubstr("one run")));
}

}  // namespace
}  // namespace vrank::graph
