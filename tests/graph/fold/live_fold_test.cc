// An engine that folds while programs are being written must tell and result in what
// one tells that plays every rank, byte for byte; and it must fold.

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/replay/engine.h"
#include "graph/replay/live_colours.h"
#include "tests/graph/fold/folding_job.h"
#include "tests/graph/replay/fakes.h"

namespace vrank::graph {
namespace {

std::string Text(const Stamp& stamp) {
  return fmt::format("{}({},{},{},{})", stamp.ns, stamp.assumed, stamp.recorded,
                     stamp.measured, stamp.assumed_host);
}

struct Play {
  bool fold = false;
  bool real_leaders = false;
  bool cut_short = false;  // the first class ends before the others
  uint64_t seed = 1;       // of when which program is written further
};

struct Outcome {
  std::set<std::string> lines;
  std::string error;
  uint64_t ops = 0;
  size_t fewest_played = ~size_t{0};
  int unfoldings = 0;
};

// The programs of a job, written bit by bit.
class LivePrograms {
 public:
  LivePrograms(const FoldingJob& made, const Play& play) : made_(made), play_(play) {
    for (const auto& source : made.programs) {
      programs_.push_back(std::make_unique<Program>(false));
      Program& program = *programs_.back();
      for (const CollectiveCall& call : source->details().collectives)
        program.AddCollective(call);
      for (const auto& group : source->details().transfer_groups)
        program.AddTransfers(group);
      for (const Creation& creation : source->details().creations)
        program.AddCreation(creation);
      left_.push_back(programs_.size() - 1);
    }
  }
  bool Done() const { return left_.empty(); }
  // Writes some ops of one program.
  const Program* Write(std::mt19937_64& random) {
    const size_t which = random() % left_.size();
    const size_t number = left_[which];
    const Program& source = *made_.programs[number];
    Program& program = *programs_[number];
    const uint64_t last =
        play_.cut_short && number == 0 ? source.size() / 3 * 2 : source.size();
    const uint64_t end = std::min(last, program.size() + 1 + random() % 30);
    while (program.size() < end) {
      Op op = source.op(program.size());
      // The answers are the engine's to give.
      if (play_.real_leaders &&
          (op.kind == OpKind::kQueryLane || op.kind == OpKind::kQueryToken))
        op.b = kAnswerUnknown;
      program.Append(op);
    }
    if (end == last) {
      program.Close();
      left_.erase(left_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    return &program;
  }
  Program* Of(const Program* source) {
    for (size_t i = 0; i < programs_.size(); ++i) {
      if (made_.programs[i].get() == source)
        return programs_[i].get();
    }
    return nullptr;
  }

 private:
  const FoldingJob& made_;
  const Play play_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<size_t> left_;  // not written to their ends
};

void Note(const Engine& engine, size_t ranks, Outcome* outcome) {
  static thread_local size_t before = 0;
  const size_t played = engine.played_ranks();
  outcome->fewest_played = std::min(outcome->fewest_played, played);
  outcome->unfoldings += before < ranks && played == ranks ? 1 : 0;
  before = played;
}

Outcome PlayLive(const FoldingJob& made, const NetworkModel& network,
                 const Play& play) {
  Outcome outcome;
  std::mt19937_64 random(play.seed);
  LivePrograms programs(made, play);
  CutMembership membership(&made.cuts);
  RecordingObserver observer;
  EngineOptions options = made.job.options;
  options.fold = play.fold;
  options.fold_step = 1 + random() % 24;
  options.shuffle_seed = random() % 2 == 0 ? 0 : random();
  Engine engine(options, &network, &membership, &observer);
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    RankOptions of_rank = rank.options;
    of_rank.real = play.real_leaders && rank.options.leader < 0;
    engine.AddRank(rank.world_rank, programs.Of(rank.program), of_rank);
  }
  absl::Status status;
  while (status.ok() && !programs.Done()) {
    engine.ProgramChanged(programs.Write(random));
    status = random() % 4 == 0 ? engine.RunFor(random() % 16).status() : engine.Run();
    Note(engine, made.job.ranks.size(), &outcome);
  }
  for (const auto& rank : made.job.ranks)
    engine.ProgramChanged(programs.Of(rank.program));
  do {
    status.Update(engine.Run());
    Note(engine, made.job.ranks.size(), &outcome);
  } while (status.ok() && engine.DecideOldestQuery());
  if (status.ok() && !engine.Finished()) {
    for (const std::string& line : engine.DescribeBlocked(100))
      outcome.error += line + "\n";
  }
  if (!status.ok())
    outcome.error = status.ToString();
  else if (engine.Finished())
    outcome.error = engine.CheckTransfersMatched().ToString();
  outcome.ops = engine.ops();
  for (const auto& [what, told] : observer.told)
    outcome.lines.insert(fmt::format("{}: {} {} {}", what, Text(told.time),
                                     Text(told.other), told.value));
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    const RankResult r = engine.result(rank.world_rank);
    outcome.lines.insert(fmt::format(
        "result {}: {} {} {} {} {} {} {} {}", rank.world_rank, Text(r.end),
        r.memory_bytes, r.peak_memory_bytes, r.peak_communicator_bytes,
        r.peak_context_bytes, r.ops, r.divergences, r.host_waited.nanoseconds()));
  }
  outcome.lines.insert(fmt::format("assumed {}", engine.assumed_arrivals()));
  return outcome;
}

std::string Difference(const Outcome& each, const Outcome& folded) {
  if (each.error != folded.error)
    return fmt::format("each: {}; folded: {}", each.error, folded.error);
  if (each.ops != folded.ops)
    return fmt::format("{} ops, folded {}", each.ops, folded.ops);
  auto a = each.lines.begin(), b = folded.lines.begin();
  for (; a != each.lines.end() && b != folded.lines.end(); ++a, ++b) {
    if (*a != *b)
      return fmt::format("each:   {}\nfolded: {}", *a, *b);
  }
  return a == each.lines.end() && b == folded.lines.end() ? "" : "one tells more";
}

FoldingJobOptions OptionsFor(uint64_t seed) {
  FoldingJobOptions options;
  options.classes = 1 + static_cast<uint32_t>(seed % 4);
  options.replicas = 2 + static_cast<uint32_t>(seed / 4 % 7);
  options.events = 80;
  options.stragglers = seed % 5 == 0 ? 1 : 0;
  options.irregular = seed % 3 == 0;
  options.even_pieces = options.replicas % 2 == 0 && seed % 7 != 0;
  options.roots = seed % 4 == 1;
  options.rings = seed % 8 == 3;
  options.late = seed % 6 == 2;
  options.release = seed / 2 % 2 == 0;
  return options;
}

class LiveFoldTest : public testing::TestWithParam<uint64_t> {};

TEST_P(LiveFoldTest, TellsWhatPlayingEachRankTells) {
  constexpr uint64_t kJobs = 120;
  uint64_t folded_jobs = 0, unfoldings = 0;
  for (uint64_t seed = GetParam() * kJobs; seed < (GetParam() + 1) * kJobs; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const FoldingJob made = MakeFoldingJob(seed, OptionsFor(seed));
    const NodeNetwork network(seed % 11 == 0 ? 3 : 100);
    const bool real = seed % 2 == 0;
    const bool cut_short = seed % 9 == 7;
    const Outcome each = PlayLive(made, network, {false, real, cut_short, seed});
    ASSERT_EQ(each.fewest_played, made.job.ranks.size());
    const Outcome folded = PlayLive(made, network, {true, real, cut_short, seed + 1});
    ASSERT_EQ(Difference(each, folded), "");
    folded_jobs += folded.fewest_played < made.job.ranks.size() ? 1 : 0;
    unfoldings += static_cast<uint64_t>(folded.unfoldings);
  }
  EXPECT_GT(folded_jobs, kJobs / 3);
  EXPECT_GT(unfoldings, kJobs / 20);
}

INSTANTIATE_TEST_SUITE_P(Shard, LiveFoldTest, testing::Range<uint64_t>(0, 4));

// Two classes of four in columns of one each.
std::vector<LiveCommunicator> Columns() {
  std::vector<LiveCommunicator> columns;
  for (uint32_t i = 0; i < 4; ++i)
    columns.push_back({{i, 4 + i}, {1, 1}, false, ""});
  return columns;
}

TEST(LiveColoursTest, LikeRanksHaveOneColour) {
  const LiveColouring all = RefineLiveColours({0, 0, 0, 0, 1, 1, 1, 1}, Columns());
  EXPECT_EQ(all.colours, 2u);
  EXPECT_EQ(all.families, 1u);
}

TEST(LiveColoursTest, OneThatDiffersPartsThoseThatCanTell) {
  const LiveColouring slow = RefineLiveColours({0, 0, 2, 0, 1, 1, 1, 1}, Columns());
  EXPECT_EQ(slow.colours, 4u);
  EXPECT_EQ(slow.colour[4], slow.colour[5]);
  EXPECT_NE(slow.colour[4], slow.colour[6]);
  std::vector<LiveCommunicator> priced = Columns();
  priced[1].condition = "dearer";
  EXPECT_EQ(RefineLiveColours({0, 0, 0, 0, 1, 1, 1, 1}, priced).colours, 4u);
}

TEST(LiveColoursTest, MembersThatAreToldApartHaveColoursOfTheirOwn) {
  std::vector<LiveCommunicator> pairs = {{{0, 1}, {1, 1}, false, ""},
                                         {{2, 3}, {1, 1}, false, ""}};
  EXPECT_EQ(RefineLiveColours({0, 0, 0, 0}, pairs).colours, 1u);
  pairs[0].apart = pairs[1].apart = true;
  EXPECT_EQ(RefineLiveColours({0, 0, 0, 0}, pairs).colours, 2u);
  // One colour under two numbers.
  pairs[0] = {{0, 1}, {1, 2}, false, ""};
  pairs[1] = {{2, 3}, {1, 2}, false, ""};
  EXPECT_EQ(RefineLiveColours({0, 0, 0, 0}, pairs).colours, 2u);
}

}  // namespace
}  // namespace vrank::graph
