// An imported graph against a simulation of the run that it was recorded from: the same
// times, and the same again after both were changed.

#include "graph/import/kineto_import.h"

#include <map>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/replayed_graph.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

absl::StatusOr<ImportedRun> Import(const SimulatedRun& run,
                                   const ProfileOptions& options = {}) {
  const ProfileFiles files;
  const SimulatedTimes times = Simulate(run);
  KinetoImportOptions import;
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank)
    import.files.push_back(files.WriteGz("rank" + std::to_string(rank) + ".json.gz",
                                         ProfileOf(run, times, rank, options)));
  return ImportKineto(import);
}

int64_t Begin(const SimulatedRun& run) {
  int64_t begin = run.ranks.front().begin_ns;
  for (const SimulatedRun::Rank& rank : run.ranks)
    begin = std::min(begin, rank.begin_ns);
  return begin;
}

void ExpectTimes(const SimulatedRun& run, const SimulatedTimes& times,
                 const ExecutionGraph& graph) {
  const auto replayed = ReplayImported(graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const ReplayedRank& got = replayed->at(static_cast<int32_t>(rank));
    const SimulatedTimes::Rank& expected = times.ranks[rank];
    ASSERT_EQ(got.ends_ns.size(), expected.works.size());
    for (size_t i = 0; i < got.ends_ns.size(); ++i)
      ASSERT_EQ(got.ends_ns[i], expected.works[i].end_ns - Begin(run))
          << "work " << i << " of rank " << rank;
    ASSERT_EQ(got.iterations_ns.size(), 1u);
    EXPECT_EQ(got.iterations_ns[0], expected.end_ns - run.ranks[rank].begin_ns);
  }
}

TEST(KinetoImportTest, ReplaysWhatWasRecorded) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const SimulatedRun run = RandomRun(&random, 1 + round % 4, 60);
    const auto import = Import(run);
    ASSERT_TRUE(import.ok()) << import.status();
    ExpectTimes(run, Simulate(run), import->graph);
    if (HasFatalFailure())
      return;
  }
}

// Times that were recorded and put back would survive the first test. Here one kernel
// takes longer, in the graph and in the description of the run, and everything has to
// move alike: what comes after it on its stream, behind events, behind waits of the
// host, and on the other ranks.
TEST(KinetoImportTest, FollowsWhenAKernelTakesLonger) {
  std::mt19937 random(2);
  int moved = 0;
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE(round);
    SimulatedRun run = RandomRun(&random, 1 + round % 4, 60);
    auto import = Import(run);
    ASSERT_TRUE(import.ok()) << import.status();
    const auto rank = static_cast<size_t>(random() % run.ranks.size());
    const SimulatedTimes before = Simulate(run);
    size_t work = 0, kernels = 0;
    const size_t chosen = random() % before.ranks[rank].works.size();
    for (SimulatedStep& step : run.ranks[rank].steps) {
      const bool kernel = step.kind == SimulatedStep::Kind::kKernel;
      if (!kernel && step.kind != SimulatedStep::Kind::kAllReduce)
        continue;
      if (work++ >= chosen && kernel && kernels++ == 0) {
        constexpr int64_t kMoreNs = 1'000'000;
        step.ns += kMoreNs;
        Lengthen(static_cast<int32_t>(rank), work - 1, kMoreNs, &import->graph);
      }
    }
    const SimulatedTimes after = Simulate(run);
    ExpectTimes(run, after, import->graph);
    if (HasFatalFailure())
      return;
    for (size_t other = 0; other < run.ranks.size(); ++other)
      moved += other != rank && after.ranks[other].end_ns != before.ranks[other].end_ns;
  }
  EXPECT_GT(moved, 20) << "of so many runs, some must have coupled their ranks";
}

// The case that matters most, by hand: every rank waits for the slowest.
TEST(KinetoImportTest, DelaysEveryRankByWhatLimitsACollective) {
  using Kind = SimulatedStep::Kind;
  SimulatedRun run;
  for (int rank = 0; rank < 3; ++rank) {
    const int64_t kernel_ns = rank == 1 ? 900'000 : 200'000;
    run.ranks.push_back({rank * 1'000,
                         {{Kind::kKernel, kernel_ns, 0, 0},
                          {Kind::kStreamWait, 0, SimulatedRun::kNcclStream, 0},
                          {Kind::kAllReduce, 50'000, SimulatedRun::kNcclStream, 0},
                          {Kind::kStreamWait, 0, 0, SimulatedRun::kNcclStream},
                          {Kind::kKernel, 10'000, 0, 0},
                          {Kind::kDeviceSync, 0, 0, 0}}});
  }
  auto import = Import(run);
  ASSERT_TRUE(import.ok()) << import.status();
  const auto before = ReplayImported(import->graph);
  ASSERT_TRUE(before.ok()) << before.status();
  constexpr int64_t kMoreNs = 1'000'000;
  Lengthen(1, 0, kMoreNs, &import->graph);
  const auto after = ReplayImported(import->graph);
  ASSERT_TRUE(after.ok()) << after.status();
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(after->at(rank).iterations_ns[0] - before->at(rank).iterations_ns[0],
              kMoreNs);
    EXPECT_EQ(after->at(rank).ends_ns[1] - before->at(rank).ends_ns[1], kMoreNs);
  }
}

// Without the rows that name streams and events, waits are inferred: the recorded times
// come out, within the clock's noise that inference allows.
TEST(KinetoImportTest, InfersWaitsThatWereNotRecorded) {
  std::mt19937 random(3);
  ProfileOptions options;
  options.syncs = false;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const SimulatedRun run = RandomRun(&random, 1 + round % 4, 60);
    const auto import = Import(run, options);
    ASSERT_TRUE(import.ok()) << import.status();
    const auto replayed = ReplayImported(import->graph);
    ASSERT_TRUE(replayed.ok()) << replayed.status();
    const SimulatedTimes times = Simulate(run);
    for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const auto expected =
          static_cast<double>(times.ranks[rank].end_ns - run.ranks[rank].begin_ns);
      const auto got = static_cast<double>(
          replayed->at(static_cast<int32_t>(rank)).iterations_ns[0]);
      EXPECT_NEAR(got / expected, 1, 0.005) << "rank " << rank;
    }
  }
}

TEST(KinetoImportTest, CountsCollectivesOfMembersThatAreMissing) {
  std::mt19937 random(4);
  const SimulatedRun run = RandomRun(&random, 3, 60);
  const SimulatedTimes times = Simulate(run);
  const ProfileFiles files;
  const auto import = ImportKineto({{files.Write("a.json", ProfileOf(run, times, 0)),
                                     files.Write("c.json", ProfileOf(run, times, 2))},
                                    {}});
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->graph.world_size, 3);
  EXPECT_EQ(import->graph.recorded_ranks.size(), 2u);
  uint64_t counted = 0, collectives = 0;
  for (const ExecutionGraph::Loss& loss : import->graph.losses)
    counted += loss.name == "collectives_with_absent_members" ? loss.count : 0;
  for (const SimulatedStep& step : run.ranks[0].steps)
    collectives += step.kind == SimulatedStep::Kind::kAllReduce ? 1 : 0;
  EXPECT_GT(collectives, 0u);
  EXPECT_EQ(counted, 2 * collectives);
  const auto replayed = ReplayImported(import->graph);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->at(2).iterations_ns[0],
            times.ranks[2].end_ns - run.ranks[2].begin_ns);
}

// Whatever the numbers, the ranks ran together: a loss, and no error.
TEST(KinetoImportTest, CountsStepsThatNotAllRanksHave) {
  std::mt19937 random(5);
  const SimulatedRun run = RandomRun(&random, 2, 40);
  const SimulatedTimes times = Simulate(run);
  const auto other_steps = [&](const std::string& step) {
    const ProfileFiles files;
    std::string text = ProfileOf(run, times, 1);
    const std::string own = "ProfilerStep#1\"";
    text.replace(text.find(own), own.size(), step + "\"");
    const auto import = ImportKineto(
        {{files.Write("0.json", ProfileOf(run, times, 0)), files.Write("1.json", text)},
         {}});
    EXPECT_TRUE(import.ok()) << import.status();
    std::map<std::string, uint64_t> counted;
    for (const ExecutionGraph::Loss& loss : import->graph.losses)
      if (loss.name == "steps_of_ranks_differ")
        counted[loss.subject] += loss.count;
    return counted;
  };
  using Counted = std::map<std::string, uint64_t>;
  EXPECT_EQ(other_steps("ProfilerStep#1"), Counted());
  EXPECT_EQ(other_steps("ProfilerStep#77"), (Counted{{"rank 0", 1}, {"rank 1", 1}}));
  EXPECT_EQ(other_steps("no step"), (Counted{{"rank 0", 1}, {"rank 1", 1}}));
}

TEST(KinetoImportTest, NamesWhatTheHostWasAt) {
  using Kind = SimulatedStep::Kind;
  SimulatedRun run;
  run.ranks.push_back({0,
                       {{Kind::kKernel, 300'000, 0, 0},
                        {Kind::kHost, 70'000, 0, 0},
                        {Kind::kDeviceSync, 0, 0, 0}}});
  const auto import = Import(run);
  ASSERT_TRUE(import.ok()) << import.status();
  std::map<std::string, int64_t> times;
  for (const auto& row : import->graph.recorded_ranks.at(0).host)
    times[row.name] = row.time_ns;
  // 305 us until the kernel has ended, of which the host works for 74.
  EXPECT_EQ(times["aten::add"], 70'000);
  EXPECT_EQ(times["cudaLaunchKernel"], 4'000);
  EXPECT_EQ(times["cudaDeviceSynchronize"], 2'000);
  EXPECT_EQ(times.size(), 3u);
}

// A trace of a virtual run has no times of a GPU, and says so (time_sources.h).
TEST(KinetoImportTest, TakesNoVirtualTimeForARecordedOne) {
  using Kind = SimulatedStep::Kind;
  SimulatedRun run;
  for (int rank = 0; rank < 2; ++rank)
    run.ranks.push_back({0,
                         {{Kind::kKernel, 300'000, 0, 0},
                          {Kind::kAllReduce, 50'000, 0, 0},
                          {Kind::kDeviceSync, 0, 0, 0}}});
  const std::string kernel = R"x(["void gemm<float>(x)"])x";
  const std::pair<std::string, Source> cases[] = {
      {R"("modelled": )" + kernel, Source::kModelled},
      {R"("measured": )" + kernel, Source::kMeasured},
      {R"("modelled": )" + kernel + R"(, "assumed": )" + kernel, Source::kAssumed},
      {R"("modelled": ["another"])", Source::kAssumed},
      {R"("of a later version": )" + kernel, Source::kAssumed}};
  for (const auto& [work, expected] : cases) {
    SCOPED_TRACE(work);
    ProfileOptions options;
    options.members = R"("vrank": {"times": "virtual", "host_ns": )"
                      R"({"modelled": 9, "assumed": 40}, "work": {)" +
                      work + "}}, ";
    const auto import = Import(run, options);
    ASSERT_TRUE(import.ok()) << import.status();
    size_t kernels = 0, collectives = 0;
    for (const auto& program : import->graph.programs) {
      for (uint64_t i = 0; i < program->size(); ++i) {
        const Op& op = program->op(i);
        EXPECT_EQ(op.host_source, Source::kModelled);
        kernels += op.kind == OpKind::kWork;
        collectives += op.kind == OpKind::kCollective;
        if (op.kind == OpKind::kWork) {
          EXPECT_EQ(op.source, expected);
        } else if (op.kind == OpKind::kCollective) {
          EXPECT_EQ(op.source, Source::kModelled);
        }
      }
    }
    EXPECT_EQ(kernels, 2u);
    EXPECT_EQ(collectives, 2u);
    std::map<std::string, uint64_t> losses;
    for (const auto& loss : import->graph.losses)
      losses[loss.name] += loss.count;
    EXPECT_EQ(losses["times_of_a_virtual_run"], 4u);
    EXPECT_EQ(losses["host_nanoseconds_assumed"], 80u);
  }
  const auto recorded = Import(run);
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  for (const auto& loss : recorded->graph.losses)
    EXPECT_NE(loss.name, "times_of_a_virtual_run");
}

}  // namespace
}  // namespace vrank::graph
