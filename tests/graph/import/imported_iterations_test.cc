// The length of an imported iteration follows its device where the host runs ahead.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/import/kineto_import.h"
#include "tests/graph/import/hand_profile.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"

namespace vrank::graph {
namespace {

ImportedRun Import(const HandProfile& profile) {
  const ProfileFiles files;
  auto import = ImportKineto({{files.Write("0.json", profile.Text())}, {}});
  EXPECT_TRUE(import.ok()) << import.status();
  return import.ok() ? *std::move(import) : ImportedRun();
}

std::vector<int64_t> Replayed(const ExecutionGraph& graph) {
  const auto replayed = ReplayImported(graph);
  EXPECT_TRUE(replayed.ok()) << replayed.status();
  return replayed.ok() ? replayed->at(0).iterations_ns : std::vector<int64_t>();
}

std::vector<int64_t> Recorded(const ExecutionGraph& graph) {
  std::vector<int64_t> lengths;
  for (const RecordedRank::Iteration& one : graph.recorded_ranks.at(0).iterations)
    lengths.push_back(one.end_ns - one.begin_ns);
  return lengths;
}

using Lengths = std::vector<int64_t>;

TEST(ImportedIterationsTest, ARecordingWithoutStepsEndsWithItsWork) {
  HandProfile profile;
  profile.Kernel("gemm", 1000, 1010, 10'000);
  for (const int64_t more_ns : {int64_t{90'000'000}, int64_t{-9'000'000}}) {
    ImportedRun run = Import(profile);
    EXPECT_EQ(Recorded(run.graph), Lengths{10'010'000});
    EXPECT_EQ(Replayed(run.graph), Lengths{10'010'000});
    Lengthen(0, 0, more_ns, &run.graph);
    EXPECT_EQ(Replayed(run.graph), Lengths{10'010'000 + more_ns});
  }
}

TEST(ImportedIterationsTest, StepsOfAHostThatRunsAheadLastAsLongAsTheirWork) {
  HandProfile profile;
  for (int step = 0; step < 3; ++step) {
    const int64_t begin_us = 1000 + 10'000 * step;
    profile.Step(step, begin_us, 10'000);
    profile.Kernel("gemm", begin_us + 100, begin_us + 110, 9'990);
  }
  profile.Call("cudaDeviceSynchronize", 31'000, 200);
  ImportedRun run = Import(profile);
  EXPECT_EQ(Recorded(run.graph), (Lengths{10'100'000, 10'000'000, 10'000'000}));
  EXPECT_EQ(Replayed(run.graph), Recorded(run.graph));
  for (size_t step = 0; step < 3; ++step)
    Lengthen(0, step, 2 * 9'990'000, &run.graph);
  EXPECT_EQ(Replayed(run.graph), (Lengths{30'080'000, 29'970'000, 29'970'000}));
}

// A profiler stopped within a step writes one of no length.
TEST(ImportedIterationsTest, AStepOfNoLengthIsNone) {
  HandProfile profile;
  profile.Step(0, 1000, 500);
  profile.Kernel("gemm", 1100, 1110, 300);
  profile.Step(1, 1500, 0);
  const ImportedRun run = Import(profile);
  EXPECT_EQ(Recorded(run.graph), Lengths{500'000});
  EXPECT_EQ(Replayed(run.graph), Lengths{500'000});
}

}  // namespace
}  // namespace vrank::graph
