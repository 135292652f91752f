// See folding_job.h.

#include "tests/graph/fold/folding_job.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>

namespace vrank::graph {

absl::StatusOr<Membership::InitAnswer> CutMembership::Init(const InitCaller& caller,
                                                           const Creation& call) {
  const uint32_t number = call.unique_id[0];
  const auto& groups = (*cuts_)[number - 1].groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto at = std::find(groups[g].begin(), groups[g].end(), caller.rank);
    if (at != groups[g].end()) {
      return InitAnswer{fmt::format("{}.{}", number, g),
                        std::make_shared<const std::vector<int32_t>>(groups[g]),
                        static_cast<uint32_t>(at - groups[g].begin())};
    }
  }
  return absl::NotFoundError(fmt::format("rank {} is in no group", caller.rank));
}

absl::StatusOr<std::vector<Membership::SplitGroup>> CutMembership::Split(
    std::string_view, uint32_t, std::span<const SplitMember> members) {
  // Every split states its number as the key.
  const Cut& cut = (*cuts_)[static_cast<size_t>(members[0].call->key) - 1];
  std::vector<SplitGroup> answer;
  for (const auto& ranks : cut.groups) {
    SplitGroup group;
    for (const int32_t rank : ranks) {
      for (uint32_t i = 0; i < members.size(); ++i) {
        if (members[i].world_rank == rank)
          group.members.push_back(i);
      }
    }
    if (!group.members.empty())
      answer.push_back(std::move(group));
  }
  return answer;
}

int64_t NodeNetwork::Nodes(std::span<const int32_t> members) const {
  std::set<int32_t> nodes;
  for (const int32_t rank : members)
    nodes.insert(rank / ranks_per_node_);
  return static_cast<int64_t>(nodes.size());
}

Cost NodeNetwork::Collective(const CollectiveCall& call,
                             std::span<const int32_t> members) const {
  return {Duration::Nanoseconds(100 * static_cast<int64_t>(members.size()) +
                                static_cast<int64_t>(call.count) * Nodes(members)),
          Nodes(members) > 1 ? Source::kAssumed : Source::kModelled};
}
Cost NodeNetwork::Transfer(uint64_t bytes, int32_t from, int32_t to) const {
  const bool near = from / ranks_per_node_ == to / ranks_per_node_;
  return {Duration::Nanoseconds(250 + static_cast<int64_t>(bytes) * (near ? 1 : 2)),
          near ? Source::kRecorded : Source::kModelled};
}
Cost NodeNetwork::Creation(std::span<const int32_t> members) const {
  return {Duration::Nanoseconds(1000 + 250 * static_cast<int64_t>(members.size())),
          Source::kAssumed};
}

namespace {

class Writer {
 public:
  Writer(uint64_t seed, const FoldingJobOptions& options)
      : options_(options), random_(seed) {}

  FoldingJob Make() {
    job_.job.options.launch_latency = Duration::Nanoseconds(250);
    job_.job.options.launch_queue_depth = 2 + Below(7);
    for (uint32_t c = 0; c < options_.classes; ++c)
      job_.programs.push_back(std::make_unique<Program>(true));
    MakeCuts();
    for (int i = 0; i < options_.events; ++i) {
      if (options_.late && i == options_.events / 2)
        AddCut({0, job_.cuts[3].groups, job_.cuts[3].even, false});
      Event();
    }
    if (options_.release)
      Release();
    for (auto& program : job_.programs)
      program->Close();
    for (uint32_t rank = 0; rank < Ranks(); ++rank) {
      ReplayJob::Rank played;
      played.world_rank = static_cast<int32_t>(rank);
      const uint32_t leader = rank / options_.replicas * options_.replicas;
      played.program = job_.programs[rank / options_.replicas].get();
      played.options.follower = rank != leader;
      played.options.leader = rank == leader ? -1 : static_cast<int32_t>(leader);
      job_.job.ranks.push_back(played);
    }
    for (int i = 0; i < options_.stragglers; ++i) {
      RankOptions& slow = job_.job.ranks[Below(Ranks())].options;
      slow.work_numerator = 3;
      slow.work_denominator = 2;
    }
    return std::move(job_);
  }

 private:
  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  uint32_t Ranks() const { return options_.classes * options_.replicas; }
  int64_t Time() { return 250 * Below(13); }

  // World, classes, columns, and pieces of the classes and of the world.
  void MakeCuts() {
    std::vector<int32_t> world(Ranks());
    std::iota(world.begin(), world.end(), 0);
    AddCut({0, {world}, true, false});
    AddCut({0, Chunks(world, options_.replicas), true, false});
    Cut columns{0, {}, true, true};
    for (uint32_t r = 0; r < options_.replicas; ++r) {
      columns.groups.emplace_back();
      for (uint32_t c = 0; c < options_.classes; ++c)
        columns.groups.back().push_back(world[c * options_.replicas + r]);
    }
    AddCut(std::move(columns));
    const uint32_t size = options_.piece != 0    ? options_.piece
                          : options_.even_pieces ? options_.replicas / 2
                                                 : 1 + Below(options_.replicas);
    Cut pieces{2, {}, options_.replicas % size == 0, false};
    for (const auto& of_class : Chunks(world, options_.replicas)) {
      for (const auto& piece : Chunks(of_class, size))
        pieces.groups.push_back(piece);
    }
    AddCut(std::move(pieces));
    if (!options_.irregular)
      return;
    std::shuffle(world.begin(), world.end(), random_);
    AddCut({1, Chunks(world, 1 + Below(Ranks())), false, false});
  }

  static std::vector<std::vector<int32_t>> Chunks(const std::vector<int32_t>& ranks,
                                                  uint32_t size) {
    std::vector<std::vector<int32_t>> chunks;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i % size == 0)
        chunks.emplace_back();
      chunks.back().push_back(ranks[i]);
    }
    return chunks;
  }

  void AddCut(Cut cut) {
    Creation call;
    call.parent = cut.parent;
    job_.cuts.push_back(std::move(cut));
    const auto number = static_cast<uint32_t>(job_.cuts.size());
    call.unique_id[0] = static_cast<uint8_t>(number);
    call.key = static_cast<int32_t>(number);
    Op op = Make(OpKind::kCreateCommunicator);
    op.a = number;
    for (auto& program : job_.programs) {
      op.b = program->AddCreation(call);
      program->Append(op);
    }
  }

  void Release() {
    for (uint32_t number = static_cast<uint32_t>(job_.cuts.size()); number > 0;
         --number) {
      for (auto& program : job_.programs) {
        Op op = Make(OpKind::kReleaseCommunicator);
        op.a = number;
        op.b = static_cast<uint32_t>(ReleaseKind::kDestroy);
        program->Append(op);
      }
      Local();
    }
  }

  Op Make(OpKind kind) {
    Op op;
    op.kind = kind;
    op.host_ns = Below(3) == 0 ? 0 : Time();
    op.source = static_cast<Source>(Below(4));
    op.host_source = static_cast<Source>(Below(4));
    op.lane = 1 + Below(2);
    return op;
  }

  void Event() {
    const uint32_t what = Below(12);
    if (what < 3)
      Collective();
    else if (what == 3 && options_.rings)
      Ring();
    else if (what == 4)
      Pipeline();
    else
      Local();
  }

  void Local() {
    static constexpr OpKind kKinds[] = {
        OpKind::kHost,          OpKind::kWork,         OpKind::kWork,
        OpKind::kWork,          OpKind::kRecordToken,  OpKind::kWaitToken,
        OpKind::kHostWaitToken, OpKind::kHostWaitLane, OpKind::kPollToken,
        OpKind::kQueryLane,     OpKind::kHostFunc,     OpKind::kMemory,
        OpKind::kRangeBegin};
    for (auto& program : job_.programs) {
      Op op = Make(kKinds[Below(std::size(kKinds))]);
      op.a = op.kind == OpKind::kRangeBegin ? 0 : 1 + Below(2);
      op.value = op.kind == OpKind::kMemory      ? Time() - 1000
                 : op.kind == OpKind::kPollToken ? 1 + Below(700)
                                                 : Time();
      op.b = op.kind == OpKind::kQueryLane ? kAnswerNotYet : 0;
      op.launch = op.kind == OpKind::kWork;
      if (op.kind == OpKind::kWork && op.source == Source::kAssumed)
        op.b = static_cast<uint32_t>(3 * op.value);
      program->Append(op);
    }
  }

  void Collective() {
    const uint32_t number = 1 + Below(static_cast<uint32_t>(job_.cuts.size()));
    size_t smallest = Ranks();
    for (const auto& group : job_.cuts[number - 1].groups)
      smallest = std::min(smallest, group.size());
    CollectiveCall call;
    static constexpr CollectiveKind kRootless[] = {CollectiveKind::kAllReduce,
                                                   CollectiveKind::kAllGather,
                                                   CollectiveKind::kReduceScatter};
    call.operation = options_.roots ? static_cast<CollectiveKind>(Below(8))
                                    : kRootless[Below(std::size(kRootless))];
    call.count = 250 * Below(4);
    call.root = options_.roots ? Below(static_cast<uint32_t>(smallest)) : 0;
    for (auto& program : job_.programs) {
      Op op = Make(OpKind::kCollective);
      op.a = number;
      op.b = program->AddCollective(call);
      op.launch = 1;
      program->Append(op);
    }
  }

  // Everybody sends to the member `step` further on, maybe to the one before as well.
  void Ring() {
    const uint32_t number = 1 + Below(static_cast<uint32_t>(job_.cuts.size()));
    const Cut& cut = job_.cuts[number - 1];
    if (!cut.even)
      return;
    const auto size = static_cast<uint32_t>(cut.groups[0].size());
    const uint32_t step = Below(size);
    const bool both_ways = Below(3) == 0;
    const uint64_t bytes = 250 * Below(7);
    for (uint32_t c = 0; c < options_.classes; ++c) {
      const uint32_t own = IndexOf(cut, static_cast<int32_t>(c * options_.replicas));
      const uint32_t next = (own + step) % size, before = (own + size - step) % size;
      std::vector<Transfer> group{{bytes, next, 1}, {bytes, before, 0}};
      if (both_ways) {
        group.push_back({bytes, before, 1});
        group.push_back({bytes, next, 0});
      }
      AddTransfers(c, number, std::move(group));
    }
  }

  // Class c sends to class c + 1.
  void Pipeline() {
    const uint64_t bytes = 250 * Below(7);
    for (uint32_t c = 0; c < options_.classes; ++c) {
      std::vector<Transfer> group;
      if (c > 0)
        group.push_back({bytes, c - 1, 0});
      if (c + 1 < options_.classes)
        group.push_back({bytes, c + 1, 1});
      if (!group.empty())
        AddTransfers(c, 3, std::move(group));
    }
  }

  void AddTransfers(uint32_t c, uint32_t number, std::vector<Transfer> group) {
    Op op = Make(OpKind::kTransfers);
    op.a = number;
    op.launch = 1;
    op.b = job_.programs[c]->AddTransfers(std::move(group));
    job_.programs[c]->Append(op);
  }

  static uint32_t IndexOf(const Cut& cut, int32_t rank) {
    for (const auto& group : cut.groups) {
      const auto at = std::find(group.begin(), group.end(), rank);
      if (at != group.end())
        return static_cast<uint32_t>(at - group.begin());
    }
    return 0;
  }

  FoldingJobOptions options_;
  std::mt19937_64 random_;
  FoldingJob job_;
};

}  // namespace

FoldingJob MakeFoldingJob(uint64_t seed, const FoldingJobOptions& options) {
  return Writer(seed, options).Make();
}

namespace {

using Ops = std::vector<Op>;

// A copy of a rank's program, which the job keeps; `add` gets each op.
Program* CopyProgram(FoldingJob* made, const Program& program,
                     const std::function<void(Op, Ops*)>& add) {
  auto ops = std::make_shared<Ops>();
  for (uint64_t i = 0; i < program.size(); ++i)
    add(program.op(i), ops.get());
  made->programs.push_back(std::make_unique<Program>(*ops, program.details(), ops));
  return made->programs.back().get();
}

void PlayAsOwn(Program* program, ReplayJob::Rank* rank) {
  rank->program = program;
  rank->options.follower = false;
  rank->options.leader = -1;
}

}  // namespace

void TraceMore(FoldingJob* made) {
  for (size_t i = 1; i < made->job.ranks.size(); i += 2) {
    ReplayJob::Rank& rank = made->job.ranks[i];
    if (std::any_of(made->job.ranks.begin(), made->job.ranks.end(),
                    [&](const auto& r) { return r.options.leader == rank.world_rank; }))
      continue;
    PlayAsOwn(CopyProgram(made, *rank.program,
                          [](const Op& op, Ops* ops) { ops->push_back(op); }),
              &rank);
  }
}

void TraceEach(FoldingJob* made, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (ReplayJob::Rank& rank : made->job.ranks) {
    Program* const own = CopyProgram(made, *rank.program, [&](Op op, Ops* ops) {
      if (op.host_ns != 0)
        op.host_ns += static_cast<int64_t>(random() % 8);
      if (op.kind == OpKind::kWork || op.kind == OpKind::kHostFunc)
        op.value += static_cast<int64_t>(random() % 32);
      if (op.kind == OpKind::kWork && op.b != 0)
        op.b += static_cast<uint32_t>(random() % 32);
      ops->push_back(op);
    });
    PlayAsOwn(own, &rank);
  }
}

void TraceWorks(FoldingJob* made, uint64_t seed, bool leave_out) {
  std::mt19937_64 random(seed);
  for (ReplayJob::Rank& rank : made->job.ranks) {
    Program* const own = CopyProgram(made, *rank.program, [&](Op op, Ops* ops) {
      const uint64_t times = random() % 8;
      if (op.kind != OpKind::kWork || (leave_out && times == 0)) {
        if (op.kind != OpKind::kWork)
          ops->push_back(op);
        return;
      }
      for (uint64_t i = 0; i <= (times < 6 ? 0 : random() % 4); ++i) {
        op.value += static_cast<int64_t>(random() % 32);
        if (random() % 8 == 0)
          op.source = random() % 2 == 0 ? Source::kAssumed : Source::kRecorded;
        // Ranks that weigh other works than each other share no block (SweepKind).
        if (op.source != Source::kAssumed || seed % 4 == 1)
          op.b = 0;
        ops->push_back(op);
      }
    });
    PlayAsOwn(own, &rank);
  }
}

}  // namespace vrank::graph
