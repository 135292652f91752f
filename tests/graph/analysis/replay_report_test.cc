// Reports over random folded jobs: sums are exact, and the critical path is the longest
// path, seen by moving what is on it and what is not.

#include "graph/analysis/replay_report.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

struct Played {
  FoldingJob made;
  NodeNetwork network{4};
  ResolvedJob job;
  std::unique_ptr<FoldedReplay> replay;
  Timeline timeline;
};

// A program's op takes `by_ns` longer: its host time, or its work.
struct Change {
  uint32_t program = kNone, op = 0;
  int64_t by_ns = 0;
  bool host = false;
};

std::unique_ptr<Program> Changed(const Program& program, const Change& change) {
  auto copy = std::make_unique<Program>(true);
  for (const CollectiveCall& call : program.details().collectives)
    copy->AddCollective(call);
  for (const auto& group : program.details().transfer_groups)
    copy->AddTransfers(group);
  for (const Creation& creation : program.details().creations)
    copy->AddCreation(creation);
  for (uint64_t i = 0; i < program.size(); ++i) {
    Op op = program.op(i);
    if (i == change.op)
      (change.host ? op.host_ns : op.value) += change.by_ns;
    copy->Append(op);
  }
  copy->Close();
  return copy;
}

std::unique_ptr<Played> Play(uint64_t seed, const Change& change = {}) {
  FoldingJobOptions options;
  options.classes = 1 + seed % 3;
  options.replicas = 2 + seed % 4;
  options.stragglers = seed % 2;
  options.irregular = seed % 3 == 0;
  auto played = std::make_unique<Played>();
  played->made = MakeFoldingJob(seed, options);
  if (change.program != kNone) {
    auto& program = played->made.programs[change.program];
    auto changed = Changed(*program, change);
    for (ReplayJob::Rank& rank : played->made.job.ranks) {
      if (rank.program == program.get())
        rank.program = changed.get();
    }
    program = std::move(changed);
  }
  CutMembership membership(&played->made.cuts);
  auto resolved = ResolveCommunicators(played->made.job, &membership);
  EXPECT_TRUE(resolved.ok());
  played->job = *std::move(resolved);
  auto replay =
      ReplayFolded(played->job, played->network, played->timeline.Observers());
  EXPECT_TRUE(replay.ok()) << replay.status().message();
  played->replay = *std::move(replay);
  played->timeline.Complete(played->job, *played->replay);
  return played;
}

TEST(ReplayReportTest, PartsAddUpToTheIteration) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto played = Play(seed);
    const ReplayReport report = MakeReport(played->timeline, {});
    for (const RankReport& rank : report.classes) {
      ASSERT_EQ(rank.breakdown.Sum(), rank.iterations[0].length_ns())
          << "seed " << seed << ", rank " << rank.rank;
      ASSERT_EQ(rank.breakdown.idle_ns, 0) << "seed " << seed;
    }
    int64_t path = 0, ledger = 0, host = 0;
    for (const Contributor& part : report.critical_path) {
      ASSERT_NE(part.kind, PathKind::kBefore) << "seed " << seed;
      path += part.time_ns;
      host += part.kind == PathKind::kHost ? part.time_ns : 0;
    }
    for (const auto& [source, ns] : report.host_ns)
      host -= ns;
    ASSERT_EQ(host, 0) << "seed " << seed;
    for (const auto& [source, ns] : report.ledger_ns)
      ledger += ns;
    ASSERT_EQ(path, report.iteration_time_ns[0]) << "seed " << seed;
    ASSERT_EQ(ledger, report.iteration_time_ns[0]) << "seed " << seed;
  }
}

// What is on the path moves the end by all of it; with equal paths beside it, too.
TEST(ReplayReportTest, WhatIsOnTheCriticalPathMovesTheEnd) {
  constexpr int64_t kDelay = 1'000'000;
  int on_path = 0, off_path = 0;
  for (uint64_t seed = 1; seed < 60; ++seed) {
    const auto played = Play(seed);
    const ReplayReport report = MakeReport(played->timeline, {});
    const PathWalk walk(&played->timeline, true);
    uint32_t rank = 0;
    while (played->timeline.ranks()[rank].world_rank != report.critical_rank)
      ++rank;
    const Iteration window = FindIterations(played->timeline.ranks()[rank], {}).all[0];
    // By class: ops, and whether their host time is meant.
    std::map<uint32_t, std::set<std::pair<uint32_t, bool>>> ops;
    for (const PathSegment& segment :
         window.end_work == kNone
             ? walk.FromPassed({rank, window.end_op}, window.begin_ns)
             : walk.FromEnd({rank, window.end_work}, window.begin_ns)) {
      if (segment.kind != PathKind::kWork && segment.kind != PathKind::kHost)
        continue;
      const int32_t on = played->timeline.ranks()[segment.at.rank].world_rank;
      ops[static_cast<uint32_t>(on) / (2 + seed % 4)].emplace(
          segment.at.op, segment.kind == PathKind::kHost);
    }
    for (const auto& [program, of_program] : ops) {
      const auto [op, host] = *of_program.rbegin();
      const auto moved =
          MakeReport(Play(seed, {program, op, kDelay, host})->timeline, {});
      ASSERT_GE(moved.iteration_time_ns[0], report.iteration_time_ns[0] + kDelay)
          << "seed " << seed << ", program " << program << ", op " << op << " ("
          << Name(played->made.programs[program]->op(op).kind) << ")";
      ++on_path;
    }
    // Work beside the path, one nanosecond longer, mostly moves nothing.
    const auto& program = *played->made.programs[0];
    for (uint32_t i = 0; i < program.size(); ++i) {
      if (program.op(i).kind != OpKind::kWork || ops[0].count({i, false}) != 0)
        continue;
      const auto moved = MakeReport(Play(seed, {0, i, 1})->timeline, {});
      off_path += moved.iteration_time_ns[0] == report.iteration_time_ns[0];
      break;
    }
  }
  EXPECT_GT(on_path, 50);
  EXPECT_GT(off_path, 10);
}

TEST(ReplayReportTest, PeakIsTheEnginesAndSaysWhatWasLive) {
  Program program(true);
  const auto memory = [&](int64_t bytes, MemoryOwner owner) {
    Op op;
    op.kind = OpKind::kMemory;
    op.value = bytes;
    op.b = static_cast<uint32_t>(owner);
    program.Append(op);
  };
  const auto range = [&](OpKind kind, uint32_t name) {
    Op op;
    op.kind = kind;
    op.a = name;
    program.Append(op);
  };
  memory(100, MemoryOwner::kContext);
  memory(50, MemoryOwner::kCommunicator);
  range(OpKind::kRangeBegin, program.AddName("forward"));
  memory(30, MemoryOwner::kProgram);
  memory(20, MemoryOwner::kProgram);
  memory(-30, MemoryOwner::kProgram);
  range(OpKind::kRangeEnd, 1);
  memory(40, MemoryOwner::kProgram);
  memory(-40, MemoryOwner::kProgram);
  program.Close();
  PlayedRank rank;
  rank.program = &program;
  const MemoryPeak peak = FindPeak(rank);
  EXPECT_EQ(peak.bytes, 210);
  EXPECT_EQ(peak.context_bytes, 100);
  EXPECT_EQ(peak.communicator_bytes, 50);
  EXPECT_EQ(peak.live_bytes,
            (std::map<std::string, int64_t>{{"", 40}, {"forward", 20}}));
}

}  // namespace
}  // namespace vrank::graph
