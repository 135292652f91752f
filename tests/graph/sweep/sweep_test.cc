// The sweep must say what the incremental engine says, byte for byte: on every kind of
// vector unit, on one thread and two, with ledgers and without, with jitter and
// without.
//
// What the engine says is taken from its observers; a job that differs is made smaller
// until nothing can be left out.

#include "graph/sweep/sweep.h"

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/sweep/replay_every_rank.h"
#include "tests/graph/fold/folding_job.h"
#include "tests/graph/replay/engine_recorder.h"

namespace vrank::graph {
namespace {

std::string Text(const Stamp& stamp) {
  return fmt::format("{}({},{},{},{})", stamp.ns, stamp.assumed, stamp.recorded,
                     stamp.measured, stamp.assumed_host);
}
std::string Text(const RankResult& r) {
  return fmt::format("{} {} {} {} {} {} {} {}", Text(r.end), r.memory_bytes,
                     r.peak_memory_bytes, r.peak_communicator_bytes,
                     r.peak_context_bytes, r.ops, r.divergences,
                     r.host_waited.nanoseconds());
}
std::string Text(const RankActivity& a) {
  return fmt::format("busy {} communication {} waited {}", a.busy_ns,
                     a.communication_ns, a.communication_waited_ns);
}

struct Case {
  SweepOptions options;
  const char* name;
};

std::vector<Case> Cases(bool store_ends) {
  std::vector<Case> cases;
  for (const VectorUnit unit :
       {VectorUnit::kScalar, VectorUnit::kAvx2, VectorUnit::kAvx512}) {
    if (FindSweepKernel(unit, {}) == nullptr)
      continue;
    Case one;
    one.options.unit = unit;
    one.options.threads = 1;
    one.options.store_ends = store_ends;
    one.options.observe = [](const std::string&) { return true; };
    one.name = Name(unit);
    cases.push_back(one);
  }
  Case two = cases.back();
  two.options.threads = 2;
  two.options.store_ends = false;
  two.name = "two threads";
  cases.push_back(two);
  two.options.ledgers = false;
  two.options.observe = nullptr;
  two.name = "times only";
  cases.push_back(two);
  return cases;
}

ResolvedJob Resolve(const FoldingJob& made) {
  CutMembership membership(&made.cuts);
  auto resolved = ResolveCommunicators(made.job, &membership);
  EXPECT_TRUE(resolved.ok()) << resolved.status().message();
  return *std::move(resolved);
}

struct Tally {
  uint64_t played = 0, declined = 0;
};

// "" where the sweep says the same as the engine, or that it cannot.
std::string Difference(const FoldingJob& made, const NetworkModel& network,
                       Tally* tally, bool store_ends = true) {
  const ResolvedJob job = Resolve(made);
  Recorder told(&job, &network);
  CutMembership membership(&made.cuts);
  Engine engine(made.job.options, &network, &membership, &told);
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    engine.AddRank(rank.world_rank, rank.program, rank.options);
    engine.ObserveTimeline(rank.world_rank, &told);
  }
  if (const absl::Status status = engine.Run(); !status.ok())
    return status.ToString();
  if (!engine.Finished())
    return engine.DescribeBlocked(1)[0];
  for (const Case& one : Cases(store_ends)) {
    auto sweep = Sweep::Prepare(job, network, one.options);
    if (!sweep.ok())
      return fmt::format("{}: {}", one.name, sweep.status().ToString());
    // Twice: the second run must begin anew.
    absl::Status status = (*sweep)->Run();
    if (status.ok())
      status = (*sweep)->Run();
    ++(status.ok() ? tally->played : tally->declined);
    if (absl::IsUnimplemented(status))
      continue;
    if (!status.ok())
      return fmt::format("{}: {}", one.name, status.ToString());
    for (uint32_t place = 0; place < job.job.ranks.size(); ++place) {
      const int32_t rank = job.job.ranks[place].world_rank;
      const Said& said = told.said[place];
      RankResult expected = engine.result(rank);
      if (!one.options.ledgers)
        expected.end = Stamp{expected.end.ns, 0, 0, 0, 0};
      if (Text(expected) != Text((*sweep)->result(place)))
        return fmt::format("{}: rank {}: engine {}, sweep {}", one.name, rank,
                           Text(expected), Text((*sweep)->result(place)));
      if (said.activity != (*sweep)->activity(place))
        return fmt::format("{}: rank {}: engine {}, sweep {}", one.name, rank,
                           Text(said.activity), Text((*sweep)->activity(place)));
      if (one.options.observe && said.marks != (*sweep)->marks(place))
        return fmt::format("{}: rank {}: marks differ", one.name, rank);
      if (!one.options.store_ends)
        continue;
      for (uint64_t op = 0; op < said.ends.size(); ++op) {
        if (said.ends[op] != (*sweep)->end(place, op))
          return fmt::format("{}: rank {}: op {} ({}): engine {}, sweep {}", one.name,
                             rank, op, Name(job.job.ranks[place].program->op(op).kind),
                             said.ends[op], (*sweep)->end(place, op));
      }
    }
  }
  return "";
}

FoldingJobOptions OptionsOf(uint64_t seed) {
  FoldingJobOptions options;
  options.classes = 1 + seed % 4;
  options.replicas = seed % 7 == 0 ? 8 * (1 + seed / 7 % 4) : 2 + seed / 4 % 15;
  options.stragglers = static_cast<int>(seed % 3 == 0);
  options.irregular = seed % 5 == 0;
  options.even_pieces = seed % 3 != 0;
  options.events = seed % 2 == 0 ? 20 : 80;
  options.roots = seed / 2 % 3 == 0;
  options.rings = seed / 6 % 2 == 0;
  return options;
}

// Whole blocks, with pieces that lie in columns.
FoldingJobOptions BlocksOf(uint64_t seed) {
  FoldingJobOptions options = OptionsOf(seed);
  options.classes = 1 + seed % 2;
  options.replicas = 64 << seed / 2 % 2;
  options.piece = 2u << seed % 3;
  options.irregular = false;
  options.events = 40;
  return options;
}

FoldingJob MakeJob(uint64_t seed, const FoldingJobOptions& options) {
  FoldingJob made = MakeFoldingJob(seed, options);
  if (!options.rings && seed % 5 < 2)
    TraceMore(&made);
  if (seed % 4 == 0)
    return made;
  for (ReplayJob::Rank& rank : made.job.ranks) {
    if (seed % 4 != 1 || rank.world_rank % 3 != 0)
      rank.options.jitter = {static_cast<uint32_t>(seed % 4 == 3 ? 300'000 : 20'000),
                             seed};
  }
  return made;
}

NodeNetwork NetworkOf(uint64_t seed) {
  return NodeNetwork(seed % 3 == 1 ? 1000 : 1 + static_cast<int32_t>(seed % 5));
}

// Leaves out what can be left out.
std::string Shrunk(uint64_t seed, FoldingJobOptions options, std::string difference) {
  const auto fails = [&](const FoldingJobOptions& smaller) {
    Tally tally;
    const std::string now = Difference(MakeJob(seed, smaller), NetworkOf(seed), &tally);
    if (now.empty())
      return false;
    options = smaller;
    difference = now;
    return true;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    FoldingJobOptions next = options;
    const auto attempt = [&](bool possible) {
      if (possible && fails(next))
        smaller = true;
      next = options;
    };
    next.events = options.events / 2;
    attempt(options.events > 1);
    next.events = options.events - 1;
    attempt(options.events > 1);
    next.replicas = options.replicas - 1;
    attempt(options.replicas > 2);
    next.classes = options.classes - 1;
    attempt(options.classes > 1);
    next.stragglers = 0;
    attempt(options.stragglers != 0);
    next.irregular = false;
    attempt(options.irregular);
  }
  return fmt::format(
      "{} (seed {}, classes {}, replicas {}, events {}, stragglers {}, irregular {}, "
      "even_pieces {}, roots {}, rings {})",
      difference, seed, options.classes, options.replicas, options.events,
      options.stragglers, options.irregular, options.even_pieces, options.roots,
      options.rings);
}

TEST(SweepTest, EqualsTheIncrementalEngineWithColumns) {
  Tally tally;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string difference =
        Difference(MakeJob(seed, BlocksOf(seed)), NetworkOf(seed), &tally);
    ASSERT_EQ(difference.empty() ? "" : Shrunk(seed, BlocksOf(seed), difference), "");
  }
  EXPECT_EQ(tally.declined, 0u);
}

TEST(SweepTest, EqualsTheIncrementalEngine) {
  const bool full = getenv("VRANK_TEST_FULL") != nullptr;
  const uint64_t seeds = full ? 20'000 : 1'000;
  Tally tally;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const FoldingJobOptions options = OptionsOf(seed);
    const std::string difference =
        Difference(MakeJob(seed, options), NetworkOf(seed), &tally);
    ASSERT_EQ(difference.empty() ? "" : Shrunk(seed, options, difference), "");
  }
  // Otherwise little would have been tested.
  EXPECT_LT(tally.declined * 20, tally.played)
      << tally.declined << " declined, " << tally.played << " played";
}

// Every rank has its own costs; those of a class run together all the same.
TEST(SweepTest, EqualsTheIncrementalEngineWithOwnCosts) {
  Tally tally;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FoldingJobOptions options = seed % 4 == 3 ? BlocksOf(seed) : OptionsOf(seed);
    options.rings = false;
    FoldingJob made = MakeJob(seed, options);
    TraceEach(&made, seed);
    ASSERT_EQ(Difference(made, NetworkOf(seed), &tally), "") << "seed " << seed;
  }
  EXPECT_LT(tally.declined * 20, tally.played)
      << tally.declined << " declined, " << tally.played << " played";
}

// Every rank also has works of its own; those that meet alike run together, where ends
// are not stored.
TEST(SweepTest, EqualsTheIncrementalEngineWithOwnWorks) {
  Tally tally;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    FoldingJobOptions options = seed % 4 == 3 ? BlocksOf(seed) : OptionsOf(seed);
    options.rings = false;
    FoldingJob made = MakeJob(seed, options);
    TraceWorks(&made, seed, seed % 3 == 0);
    // Where launches wait for others, few ranks of a job this small meet alike.
    if (seed % 4 != 0)
      made.job.options.launch_queue_depth = 1024;
    ASSERT_EQ(Difference(made, NetworkOf(seed), &tally, seed % 8 == 7), "")
        << "seed " << seed;
  }
  EXPECT_LT(tally.declined * 20, tally.played)
      << tally.declined << " declined, " << tally.played << " played";
}

FoldingJob Regular(uint32_t classes, uint32_t replicas) {
  FoldingJobOptions options;
  options.classes = classes;
  options.replicas = replicas;
  options.irregular = options.roots = options.rings = false;
  options.even_pieces = true;
  return MakeFoldingJob(1, options);
}

TEST(SweepTest, RefusesWhatDoesNotFitWithTheAmount) {
  const FoldingJob made = Regular(2, 64);
  const ResolvedJob job = Resolve(made);
  SweepOptions options;
  options.max_bytes = 10'000;
  const auto sweep = Sweep::Prepare(job, NodeNetwork(8), options);
  ASSERT_TRUE(absl::IsResourceExhausted(sweep.status())) << sweep.status();
  EXPECT_NE(sweep.status().message().find("128 ranks"), std::string::npos)
      << sweep.status().message();
  options.max_bytes = 0;
  const auto fits = Sweep::Prepare(job, NodeNetwork(8), options);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_LT((*fits)->bytes(), 128u * 1024);  // 1 KiB per rank
}

// Else each of them would be a block of one.
TEST(SweepTest, PlaysProgramsThatDoTheSameTogether) {
  FoldingJob made = Regular(2, 64);
  TraceMore(&made);
  const ResolvedJob job = Resolve(made);
  const auto sweep = Sweep::Prepare(job, NodeNetwork(8), {});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ((*sweep)->blocks(), 2u);
}

TEST(SweepTest, PlaysProgramsThatDifferInCostsTogether) {
  if (BestVectorUnit() == VectorUnit::kScalar)
    GTEST_SKIP() << "this machine has no vector unit that the sweep knows";
  FoldingJob made = Regular(2, 64);
  TraceEach(&made, 1);
  const ResolvedJob job = Resolve(made);
  const auto sweep = Sweep::Prepare(job, NodeNetwork(8), {});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ((*sweep)->blocks(), 2u);
}

TEST(SweepTest, PlaysProgramsThatDifferInWorksTogether) {
  if (BestVectorUnit() == VectorUnit::kScalar)
    GTEST_SKIP() << "this machine has no vector unit that the sweep knows";
  FoldingJob made = Regular(2, 64);
  TraceWorks(&made, 1, false);
  made.job.options.launch_queue_depth = 1024;
  const ResolvedJob job = Resolve(made);
  SweepOptions options;
  const auto sweep = Sweep::Prepare(job, NodeNetwork(8), options);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  // One block per class, or few: how many programs fit one depends on the vector unit.
  EXPECT_LE((*sweep)->blocks(), 4u);
  options.store_ends = true;  // each op has a place of its own in each program
  const auto stored = Sweep::Prepare(job, NodeNetwork(8), options);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_GT((*stored)->blocks(), 64u);
}

// What the sweep cannot do goes to the engine: a work of five seconds.
TEST(SweepTest, HandsOverWhatItCannotDo) {
  const NodeNetwork network(8);
  SweepOptions options;
  options.observe = [](const std::string&) { return true; };
  for (const bool is_long : {false, true}) {
    FoldingJob made = Regular(2, 8);
    Program* const program = made.job.ranks[0].program;
    std::vector<Op> ops;
    for (uint64_t i = 0; i < program->size(); ++i) {
      ops.push_back(program->op(i));
      if (is_long && ops.back().kind == OpKind::kWork)
        ops.back().value += 5'000'000'000;
    }
    Program changed(ops, program->details(), nullptr);
    for (ReplayJob::Rank& rank : made.job.ranks) {
      rank.options.jitter = {20'000, 3};
      if (rank.program == program)
        rank.program = &changed;
    }
    const ResolvedJob job = Resolve(made);
    const auto every = ReplayEveryRank(job, network, options);
    ASSERT_TRUE(every.ok()) << every.status();
    EXPECT_EQ(every->executor == "incremental engine", is_long) << every->executor;
    Recorder told(&job, &network);
    CutMembership membership(&made.cuts);
    Engine engine(made.job.options, &network, &membership, &told);
    for (const ReplayJob::Rank& rank : made.job.ranks) {
      engine.AddRank(rank.world_rank, rank.program, rank.options);
      engine.ObserveTimeline(rank.world_rank, &told);
    }
    ASSERT_TRUE(engine.Run().ok());
    for (uint32_t place = 0; place < job.job.ranks.size(); ++place) {
      EXPECT_EQ(Text(every->results[place]),
                Text(engine.result(job.job.ranks[place].world_rank)));
      EXPECT_EQ(every->activities[place], told.said[place].activity)
          << Text(every->activities[place]) << " " << Text(told.said[place].activity);
      EXPECT_EQ(every->marks[place], told.said[place].marks);
    }
  }
}

}  // namespace
}  // namespace vrank::graph
