// A folded replay must equal the unfolded one, byte for byte; and a fold that is wrong
// must not.
//
// Both runs are written down as lines (everything an observer is told, results of every
// rank, the time of every op of the ranks that are played) and compared by one
// function.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/fold/replay.h"
#include "graph/program/program_content.h"
#include "graph/sweep/replay_every_rank.h"
#include "tests/graph/fold/folding_job.h"

namespace vrank::graph {
namespace {

std::string Text(const Stamp& stamp) {
  return fmt::format("{}({},{},{},{})", stamp.ns, stamp.assumed, stamp.recorded,
                     stamp.measured, stamp.assumed_host);
}

// What was told, independent of the order of telling.
class Recorder : public SilentObserver, public TimelineObserver {
 public:
  std::multiset<std::string> lines;
  std::map<int32_t, std::map<std::string, Stamp>> ops;  // by rank

  void OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) override {
    lines.insert(fmt::format("range {} {} {} {}", rank, name, begin, Text(host)));
  }
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const CollectiveCall& call,
                       Stamp arrival, Stamp end) override {
    lines.insert(fmt::format("collective {} {} {} {} {}/{} {} {}", communicator,
                             sequence, member, rank, Name(call.operation), call.root,
                             Text(arrival), Text(end)));
  }
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     Stamp arrival, Stamp end) override {
    lines.insert(fmt::format("transfer {} {} {} {} {} {} {} {} {}", communicator, from,
                             to, sequence, bytes, is_send, rank, Text(arrival),
                             Text(end)));
  }
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override {
    std::string line =
        fmt::format("communicator {} {} {} {}", rank, number, identity, index);
    for (const int32_t member : members)
      line += fmt::format(" {}", member);
    lines.insert(line);
  }
  void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                  const Stamp& passed) override {
    ops[rank][fmt::format("{:4} reached", op)] = reached;
    ops[rank][fmt::format("{:4} passed", op)] = passed;
  }
  void OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                 const Stamp& end) override {
    ops[rank][fmt::format("{:4} begin", op)] = begin;
    ops[rank][fmt::format("{:4} end", op)] = end;
  }
};

std::string Text(const RankResult& r) {
  return fmt::format("{} {} {} {} {} {} {} {}", Text(r.end), r.memory_bytes,
                     r.peak_memory_bytes, r.peak_communicator_bytes,
                     r.peak_context_bytes, r.ops, r.divergences,
                     r.host_waited.nanoseconds());
}

struct Outcome {
  absl::Status status;
  Recorder told;
  uint64_t ops = 0;
};

Outcome PlayUnfolded(const FoldingJob& made, const NetworkModel& network) {
  Outcome outcome;
  CutMembership membership(&made.cuts);
  Engine engine(made.job.options, &network, &membership, &outcome.told);
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    engine.AddRank(rank.world_rank, rank.program, rank.options);
    engine.ObserveTimeline(rank.world_rank, &outcome.told);
  }
  outcome.status = engine.Run();
  if (outcome.status.ok() && !engine.Finished())
    outcome.status = absl::FailedPreconditionError(engine.DescribeBlocked(1)[0]);
  outcome.ops = engine.ops();
  for (const ReplayJob::Rank& rank : made.job.ranks) {
    outcome.told.lines.insert(fmt::format("result {} {}", rank.world_rank,
                                          Text(engine.result(rank.world_rank))));
  }
  return outcome;
}

ResolvedJob Resolve(const FoldingJob& made) {
  CutMembership membership(&made.cuts);
  auto resolved = ResolveCommunicators(made.job, &membership);
  EXPECT_TRUE(resolved.ok()) << resolved.status().message();
  return *std::move(resolved);
}

Outcome PlayFolded(const ResolvedJob& job, const Colouring& colouring,
                   const NetworkModel& network) {
  Outcome outcome;
  FoldedReplay replay(&job, colouring, &network,
                      {&outcome.told, nullptr, &outcome.told});
  outcome.status = replay.Run();
  outcome.ops = replay.ops();
  for (const ReplayJob::Rank& rank : job.job.ranks) {
    outcome.told.lines.insert(fmt::format("result {} {}", rank.world_rank,
                                          Text(replay.result(rank.world_rank))));
  }
  return outcome;
}

// "" if the two runs are equal.
std::string Difference(const Outcome& unfolded, const Outcome& folded) {
  if (!unfolded.status.ok() || !folded.status.ok()) {
    return fmt::format("unfolded: {}; folded: {}", unfolded.status.ToString(),
                       folded.status.ToString());
  }
  if (unfolded.ops != folded.ops)
    return fmt::format("{} ops, folded {}", unfolded.ops, folded.ops);
  for (const auto& [rank, ops] : folded.told.ops) {
    for (const auto& [op, time] : ops) {
      const Stamp& expected = unfolded.told.ops.at(rank).at(op);
      if (time != expected) {
        return fmt::format("rank {}, op {}: unfolded {}, folded {}", rank, op,
                           Text(expected), Text(time));
      }
    }
  }
  auto a = unfolded.told.lines.begin();
  auto b = folded.told.lines.begin();
  for (; a != unfolded.told.lines.end() && b != folded.told.lines.end(); ++a, ++b) {
    if (*a != *b)
      return fmt::format("unfolded: {}; folded: {}", *a, *b);
  }
  if (unfolded.told.lines.size() != folded.told.lines.size())
    return "one run has more to tell";
  return "";
}

FoldingJobOptions OptionsOf(uint64_t seed) {
  FoldingJobOptions options;
  options.classes = 1 + seed % 4;
  options.replicas = 2 + seed / 4 % 7;
  options.stragglers = static_cast<int>(seed % 3 == 0);
  options.irregular = seed % 5 == 0;
  options.even_pieces = seed % 3 != 0;
  options.events = seed % 2 == 0 ? 20 : 60;
  options.roots = seed / 2 % 3 == 0;
  options.rings = seed / 6 % 2 == 0;
  return options;
}

TEST(FoldTest, EqualsTheUnfoldedReplay) {
  uint64_t ranks = 0, colours = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const FoldingJob made = MakeFoldingJob(seed, OptionsOf(seed));
    const NodeNetwork network(seed % 3 == 1 ? 1000
                                            : 1 + static_cast<int32_t>(seed % 5));
    const ResolvedJob job = Resolve(made);
    EXPECT_TRUE(job.foldable);
    const Colouring colouring = RefineColours(job, network);
    ASSERT_EQ(
        Difference(PlayUnfolded(made, network), PlayFolded(job, colouring, network)),
        "")
        << "seed " << seed << ", " << colouring.colours << " colours of "
        << made.job.ranks.size() << " ranks";
    ranks += made.job.ranks.size();
    colours += colouring.colours;
  }
  // Otherwise nothing would have been tested.
  EXPECT_LT(colours * 10, ranks * 8) << colours << " of " << ranks;
}

TEST(FoldTest, EqualsTheUnfoldedReplayWithoutFolding) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const FoldingJob made = MakeFoldingJob(seed, OptionsOf(seed));
    const NodeNetwork network(2);
    const ResolvedJob job = Resolve(made);
    ASSERT_EQ(Difference(PlayUnfolded(made, network),
                         PlayFolded(job, SeparateColours(made.job), network)),
              "")
        << "seed " << seed;
  }
}

FoldingJobOptions Regular(uint32_t classes, uint32_t replicas) {
  FoldingJobOptions options;
  options.classes = classes;
  options.replicas = replicas;
  options.irregular = options.roots = options.rings = false;
  options.even_pieces = true;
  return options;
}

// Counts the seeds in which a wrong colouring shows.
template <class Wrong>
int Noticed(int stragglers, Wrong wrong) {
  int noticed = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    FoldingJobOptions options = Regular(2, 4);
    options.stragglers = stragglers;
    const FoldingJob made = MakeFoldingJob(seed, options);
    const NodeNetwork network(3);
    const ResolvedJob job = Resolve(made);
    noticed += !Difference(PlayUnfolded(made, network),
                           PlayFolded(job, wrong(job, network), network))
                    .empty();
  }
  return noticed;
}

TEST(FoldTest, NoticesAFoldThatDoesNotLookAtCommunicators) {
  EXPECT_GT(Noticed(1, [](const ResolvedJob& job,
                          const NodeNetwork&) { return InitialColours(job.job); }),
            30);
}

TEST(FoldTest, NoticesAFoldThatIgnoresWorkFactors) {
  EXPECT_GT(Noticed(2,
                    [](const ResolvedJob& job, const NodeNetwork& network) {
                      ReplayJob equal = job.job;
                      for (ReplayJob::Rank& rank : equal.ranks)
                        rank.options.work_numerator = rank.options.work_denominator = 1;
                      return RefineColours(job, network, InitialColours(equal));
                    }),
            30);
}

TEST(FoldTest, FoldsARegularJobToItsClasses) {
  const FoldingJob made = MakeFoldingJob(1, Regular(4, 16));
  const NodeNetwork network(1 << 20);
  EXPECT_LE(RefineColours(Resolve(made), network).colours, 4u);
}

TEST(FoldTest, ASlowRankSplitsThoseWhoMeetIt) {
  FoldingJob made = MakeFoldingJob(1, Regular(4, 16));
  made.job.ranks[20].options.work_numerator = 2;
  const NodeNetwork network(1 << 20);
  const Colouring colouring = RefineColours(Resolve(made), network);
  EXPECT_GT(colouring.colours, 4u);
  EXPECT_LT(colouring.colours, 33u);
  EXPECT_NE(colouring.colour[20], colouring.colour[21]);
}

TEST(FoldTest, EqualFactorsAreOneFactor) {
  FoldingJob made = MakeFoldingJob(1, Regular(1, 2));
  for (ReplayJob::Rank& rank : made.job.ranks) {
    rank.options.follower = false;
    rank.options.leader = -1;
  }
  made.job.ranks[0].options.work_numerator = 3;
  made.job.ranks[0].options.work_denominator = 2;
  made.job.ranks[1].options.work_numerator = 6;
  made.job.ranks[1].options.work_denominator = 4;
  EXPECT_EQ(InitialColours(made.job).colours, 1u);
}

// An open copy of a program, with other creations and ops.
std::unique_ptr<Program> CopyOf(
    const Program& from,
    const std::function<Creation(Creation)>& creation_of =
        [](Creation creation) { return creation; },
    const std::function<Op(uint64_t, Op)>& op_of = [](uint64_t, Op op) { return op; }) {
  auto program = std::make_unique<Program>(true);
  for (const Creation& creation : from.details().creations)
    program->AddCreation(creation_of(creation));
  for (const CollectiveCall& call : from.details().collectives)
    program->AddCollective(call);
  for (const auto& group : from.details().transfer_groups)
    program->AddTransfers(group);
  for (const std::string& name : from.details().names)
    program->AddName(name);
  for (uint64_t i = 0; i < from.size(); ++i)
    program->Append(op_of(i, from.op(i)));
  return program;
}

TEST(FoldTest, ErrorsNameRealRanks) {
  FoldingJob made = MakeFoldingJob(3, Regular(2, 4));
  // Class 1 has one more collective on the world, so that class 0 never comes.
  auto program = CopyOf(*made.programs[1]);
  Op op;
  op.kind = OpKind::kCollective;
  op.a = 1;
  op.lane = 1;
  op.b = program->AddCollective({});
  program->Append(op);
  program->Close();
  for (size_t i = 4; i < 8; ++i)
    made.job.ranks[i].program = program.get();
  const ResolvedJob job = Resolve(made);
  EXPECT_FALSE(job.foldable);
  const auto replay = ReplayFolded(job, NodeNetwork(4), {});
  ASSERT_FALSE(replay.ok());
  EXPECT_NE(replay.status().message().find("halt"), std::string::npos)
      << replay.status().message();
  EXPECT_NE(replay.status().message().find("0-3"), std::string::npos)
      << replay.status().message();
}

// A class of which two ranks were traced has two programs, which differ in what only
// says who belongs to whom.
TEST(FoldTest, FoldsRanksThatWereTracedWithTheirLeaders) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    FoldingJobOptions options = Regular(2, 4);
    options.stragglers = seed % 3 == 0;
    FoldingJob made = MakeFoldingJob(seed, options);
    const NodeNetwork network(seed % 2 == 0 ? 1 << 20 : 3);
    const uint32_t colours = RefineColours(Resolve(made), network).colours;
    std::vector<std::unique_ptr<Program>> second;
    for (const size_t rank : {size_t{2}, size_t{7}}) {
      second.push_back(CopyOf(*made.job.ranks[rank].program, [&](Creation creation) {
        creation.rank += static_cast<uint32_t>(rank);
        creation.color += 3;
        return creation;
      }));
      second.back()->Close();
      made.job.ranks[rank].program = second.back().get();
      made.job.ranks[rank].options.follower = false;
      made.job.ranks[rank].options.leader = -1;
    }
    const ResolvedJob job = Resolve(made);
    const Colouring colouring = RefineColours(job, network);
    ASSERT_EQ(colouring.colours, colours) << "seed " << seed;
    ASSERT_EQ(
        Difference(PlayUnfolded(made, network), PlayFolded(job, colouring, network)),
        "")
        << "seed " << seed;
  }
}

TEST(FoldTest, ProgramsThatDifferInOneOpAreTwo) {
  const FoldingJob made = MakeFoldingJob(1, Regular(1, 2));
  const Program& program = *made.programs[0];
  for (uint64_t at = 0; at < program.size(); ++at) {
    auto other = CopyOf(
        program, [](Creation creation) { return creation; },
        [at](uint64_t index, Op op) {
          op.host_ns += index == at;
          return op;
        });
    other->Close();
    ASSERT_FALSE(DoTheSame(program, *other)) << at;
    ProgramNumbering number_of;
    ASSERT_NE(number_of(&program), number_of(other.get())) << at;
  }
  ProgramNumbering number_of;
  auto same = CopyOf(program);
  same->Close();
  EXPECT_EQ(number_of(&program), number_of(same.get()));
}

// All members of class 1 send once more than anybody receives, within the credit.
TEST(FoldTest, ASendWithoutAReceiveIsFoundByEveryExecutor) {
  FoldingJob made = MakeFoldingJob(3, Regular(2, 4));
  auto program = CopyOf(*made.programs[1]);
  Op op;
  op.kind = OpKind::kTransfers;
  op.a = 1;
  op.lane = 1;
  op.b = program->AddTransfers({{64, 0, 1}});
  program->Append(op);
  program->Close();
  for (size_t i = 4; i < 8; ++i)
    made.job.ranks[i].program = program.get();
  const ResolvedJob job = Resolve(made);
  EXPECT_TRUE(job.foldable);
  const NodeNetwork network(1000);
  EXPECT_LT(RefineColours(job, network).colours, 8u);
  const auto folded = ReplayFolded(job, network, {});
  const auto every = ReplayEveryRank(job, network, {});
  for (const absl::Status& status : {folded.status(), every.status()}) {
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_NE(
        status.message().find("send #0 from rank 4 (index 4) to rank 0 (index 0), "
                              "64 bytes, has no receive"),
        std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("(3 more pairs of members have such)"),
              std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace vrank::graph
