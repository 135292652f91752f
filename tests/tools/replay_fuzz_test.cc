// Graphs that were damaged under right checksums: what decodes is replayed by every
// executor, reported and exported. Nothing may crash, hang or grow without bounds; what
// cannot be replayed is an error.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/export/goal.h"
#include "graph/export/perfetto.h"
#include "graph/file/graph_file.h"
#include "tests/base/mutate.h"
#include "tests/tools/fuzz_graphs.h"
#include "tests/tools/fuzz_rounds.h"
#include "tools/compare/recording_comparison.h"
#include "tools/replay/graph_replay.h"
#include "tools/replay/unfolded_replay.h"
#include "tools/report/replay_report.h"
#include "tools/report/unfolded_report.h"

namespace vrank::tools {
namespace {

using graph::ReplayExecutor;

absl::StatusOr<graph::ExecutionGraph> Decode(const std::string& bytes) {
  auto copy = std::shared_ptr<unsigned char>(
      static_cast<unsigned char*>(std::aligned_alloc(64, (bytes.size() / 64 + 1) * 64)),
      [](unsigned char* at) { std::free(at); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  return graph::DecodeGraph("fuzz.vgraph", {copy.get(), bytes.size()}, copy);
}

// How many got how far.
using Counts = std::map<std::string, uint64_t>;

class Replayer {
 public:
  explicit Replayer(const graph::ExecutionGraph* graph) : graph_(*graph) {
    options_.iteration_pattern = *IterationPattern(graph_, std::nullopt);
  }

  void All(std::mt19937* random, Counts* counts) {
    (*counts)["folded"] += Folded(false);
    (*counts)["each"] += Folded(true);
    if ((*random)() % 2 == 0)
      options_.jitter = {10'000, 7};
    (*counts)["sweep"] += Unfolded(ReplayExecutor::kSweep);
    (*counts)["worklist"] += Unfolded(ReplayExecutor::kWorklist);
    (*counts)["colours"] += Unfolded(ReplayExecutor::kFolded);
    options_.contention = true;
    (*counts)["flow"] += Unfolded(ReplayExecutor::kWorklist);
  }

 private:
  bool Folded(bool every_rank) {
    options_.every_rank = every_rank;
    options_.collectives = every_rank;
    const auto replay = GraphReplay::Play(graph_, installation_, options_);
    if (!replay.ok())
      return false;
    const graph::ReplayReport report = (*replay)->Report(options_.iteration_pattern);
    EXPECT_FALSE(ReplayJson(**replay, report, {}).empty());
    EXPECT_FALSE(ReplayText(**replay, report, {}).empty());
    if (!graph_.recorded_ranks.empty())
      (void)CompareWithRecording(**replay, report);
    std::stringstream file;
    graph::PerfettoOptions perfetto;
    perfetto.job = &(*replay)->job();
    perfetto.quotient = &(*replay)->quotient();
    EXPECT_TRUE(graph::WritePerfetto((*replay)->timeline(), perfetto, file).ok());
    if (every_rank)
      (void)graph::WriteGoal((*replay)->timeline(), file);
    return true;
  }

  bool Unfolded(ReplayExecutor executor) {
    UnfoldedOptions unfolded;
    unfolded.executor = executor;
    unfolded.threads = 1;
    const auto played = ReplayUnfolded(graph_, installation_, options_, unfolded);
    if (!played.ok())
      return false;
    EXPECT_FALSE(UnfoldedText(graph_, *played, options_).empty());
    EXPECT_FALSE(UnfoldedJson(graph_, *played, options_).empty());
    return true;
  }

  const graph::ExecutionGraph& graph_;
  const Installation installation_{"", VRANK_DATA_DIR};
  GraphReplayOptions options_;
};

TEST(ReplayFuzzTest, SoundGraphsAreReplayedByAll) {
  for (const bool own_programs : {false, true}) {
    const auto graph = Decode(Packed(SoundGraph(own_programs)));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const Installation installation{"", VRANK_DATA_DIR};
    GraphReplayOptions options;
    const auto replay = GraphReplay::Play(*graph, installation, options);
    ASSERT_TRUE(replay.ok()) << replay.status();
    std::mt19937 random(1);
    Counts counts;
    Replayer(&*graph).All(&random, &counts);
    for (const auto& [executor, replayed] : counts)
      EXPECT_EQ(replayed, 1u) << executor;
  }
}

TEST(ReplayFuzzTest, NoDamagedGraphHurts) {
  const GraphParts seeds[] = {SoundGraph(false), SoundGraph(true)};
  Counts counts;
  FuzzRounds([&](std::mt19937* random) {
    std::string bytes = Packed(Damaged(seeds[(*random)() % 2], random));
    // One in eight is damaged on its way, too, so that its checksums do not fit.
    if ((*random)() % 8 == 0)
      bytes = Mutated(bytes, 4, SmallValues(), random);
    const auto graph = Decode(bytes);
    ++counts["inputs"];
    counts["decoded"] += graph.ok();
    if (graph.ok())
      Replayer(&*graph).All(random, &counts);
  });
  for (const auto& [what, count] : counts)
    printf("%s %llu\n", what.c_str(), static_cast<unsigned long long>(count));
  // The test would show nothing if hardly any input came through.
  EXPECT_GT(counts["decoded"] * 2, counts["inputs"]);
  EXPECT_GT(counts["folded"] * 10, counts["inputs"]);
}

}  // namespace
}  // namespace vrank::tools
