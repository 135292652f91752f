// See random_job.h.

#include "tests/graph/replay/random_job.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "tests/graph/replay/fakes.h"

namespace vrank::graph {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, const RandomJobOptions& options)
      : options_(options), random_(seed) {}

  Job Make() {
    ranks_ = 1 + Below(7);
    lanes_ = 1 + static_cast<uint32_t>(Below(4));
    tokens_ = 1 + static_cast<uint32_t>(Below(4));
    job_.launch_queue_depth = 2 + static_cast<uint32_t>(Below(7));
    job_.latency_ns = 1 + Below(3000);
    for (int rank = 0; rank < ranks_; ++rank) {
      job_.programs.push_back(std::make_unique<Program>(true));
      job_.work_scales.emplace_back(
          Below(4) == 0 ? std::pair<int64_t, int64_t>(3 + Below(5), 2 + Below(3))
                        : std::pair<int64_t, int64_t>(1, 1));
      if (options_.absent_ranks && rank > 0 && Below(8) == 0)
        job_.absent.insert(rank);
    }
    std::vector<int32_t> world;
    for (int rank = 0; rank < ranks_; ++rank)
      world.push_back(rank);
    AddInit(std::move(world));
    for (int i = Below(3); i > 0; --i)
      AddInit(RandomMembers());
    for (int i = 0; i < options_.events; ++i)
      Event();
    for (auto& program : job_.programs)
      program->Close();
    return std::move(job_);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  // Few values, so that ties happen.
  int64_t Time() { return 250 * Below(13); }

  Op Make(OpKind kind) {
    Op op;
    op.kind = kind;
    op.host_ns = Below(3) == 0 ? 0 : Time();
    op.source = static_cast<Source>(Below(4));
    op.host_source = static_cast<Source>(Below(4));
    op.lane = 1 + static_cast<uint32_t>(Below(static_cast<int>(lanes_)));
    return op;
  }
  Program& ProgramOf(int rank) { return *job_.programs[static_cast<size_t>(rank)]; }
  void Add(int rank, const Op& op) { ProgramOf(rank).Append(op); }

  std::vector<int32_t> RandomMembers() {
    std::vector<int32_t> members;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (Below(2) == 0)
        members.push_back(rank);
    }
    if (members.empty())
      members.push_back(Below(ranks_));
    std::shuffle(members.begin(), members.end(), random_);
    return members;
  }

  uint32_t NewNumber(int rank) { return ++numbers_[rank]; }

  void AddInit(std::vector<int32_t> members) {
    const int group = static_cast<int>(job_.groups.size());
    job_.groups.push_back({fmt::format("g{}", group), std::move(members)});
    const auto& of = job_.groups.back().members;
    for (uint32_t i = 0; i < of.size(); ++i) {
      Op op = Make(OpKind::kCreateCommunicator);
      op.a = NewNumber(of[i]);
      op.b = ProgramOf(of[i]).AddCreation(InitOf(job_, group, i));
      job_.communicators[{of[i], op.a}] = {group, i};
      number_of_[{group, i}] = op.a;
      Add(of[i], op);
    }
    usable_.push_back(group);
  }

  void AddSplit() {
    const int parent =
        usable_[static_cast<size_t>(Below(static_cast<int>(usable_.size())))];
    const std::vector<int32_t> members =
        job_.groups[static_cast<size_t>(parent)].members;
    const uint32_t sequence = splits_[parent]++;
    std::vector<std::vector<int32_t>> children(static_cast<size_t>(1 + Below(3)));
    std::vector<int> colors;
    for (const int32_t rank : members) {
      // -1: no colour.
      colors.push_back(Below(static_cast<int>(children.size()) + 1) - 1);
      if (colors.back() >= 0)
        children[static_cast<size_t>(colors.back())].push_back(rank);
    }
    std::vector<int> child_group(children.size(), -1);
    for (size_t c = 0; c < children.size(); ++c) {
      std::shuffle(children[c].begin(), children[c].end(), random_);
      if (children[c].empty())
        continue;
      child_group[c] = static_cast<int>(job_.groups.size());
      auto& of_split = job_.splits[{parent, sequence}];
      job_.groups.push_back(
          {fmt::format("{}/{}.{}", job_.groups[static_cast<size_t>(parent)].identity,
                       sequence, of_split.size()),
           children[c]});
      of_split.push_back(child_group[c]);
      usable_.push_back(child_group[c]);
    }
    job_.splits[{parent, sequence}];  // also where nobody has a colour
    for (uint32_t i = 0; i < members.size(); ++i) {
      const int32_t rank = members[i];
      Creation call;
      call.parent = number_of_[{parent, i}];
      call.color = colors[i];
      Op op = Make(OpKind::kCreateCommunicator);
      op.a = NewNumber(rank);
      op.b = ProgramOf(rank).AddCreation(call);
      if (colors[i] < 0) {
        job_.communicators[{rank, op.a}] = {-1, 0};
      } else {
        const auto& of = children[static_cast<size_t>(colors[i])];
        const int group = child_group[static_cast<size_t>(colors[i])];
        const auto index =
            static_cast<uint32_t>(std::find(of.begin(), of.end(), rank) - of.begin());
        job_.communicators[{rank, op.a}] = {group, index};
        number_of_[{group, index}] = op.a;
      }
      Add(rank, op);
    }
  }

  void AddCollective(int group) {
    const auto& members = job_.groups[static_cast<size_t>(group)].members;
    CollectiveCall call;
    call.operation = static_cast<CollectiveKind>(Below(8));
    call.count = static_cast<uint64_t>(Below(4)) * 250;
    call.root = static_cast<uint32_t>(Below(static_cast<int>(members.size())));
    for (uint32_t i = 0; i < members.size(); ++i) {
      Op op = Make(OpKind::kCollective);
      op.a = number_of_[{group, i}];
      op.b = ProgramOf(members[i]).AddCollective(call);
      op.launch = Below(4) != 0;
      Add(members[i], op);
    }
  }

  // One fused group per member that takes part.
  void AddTransfers(int group) {
    const auto& members = job_.groups[static_cast<size_t>(group)].members;
    const int n = static_cast<int>(members.size());
    std::vector<std::vector<Transfer>> groups(members.size());
    for (int i = 1 + Below(2 * n); i > 0; --i) {
      const auto from = static_cast<uint32_t>(Below(n));
      const auto to = static_cast<uint32_t>(Below(n));
      const auto bytes = static_cast<uint64_t>(Below(7)) * 250;  // credit: 1000
      groups[from].push_back({bytes, to, 1});
      groups[to].push_back({bytes, from, 0});
    }
    for (uint32_t i = 0; i < members.size(); ++i) {
      if (groups[i].empty())
        continue;
      Op op = Make(OpKind::kTransfers);
      op.a = number_of_[{group, i}];
      op.b = ProgramOf(members[i]).AddTransfers(groups[i]);
      op.launch = Below(4) != 0;
      Add(members[i], op);
    }
  }

  void AddLocal(int rank) {
    static constexpr OpKind kKinds[] = {
        OpKind::kHost,        OpKind::kWork,         OpKind::kWork,
        OpKind::kWork,        OpKind::kWork,         OpKind::kRecordToken,
        OpKind::kRecordToken, OpKind::kWaitToken,    OpKind::kWaitToken,
        OpKind::kReleaseLane, OpKind::kHostWaitLane, OpKind::kHostWaitToken,
        OpKind::kPollToken,   OpKind::kPollLane,     OpKind::kQueryToken,
        OpKind::kQueryLane,   OpKind::kAskClock,     OpKind::kHostFunc,
        OpKind::kMemory,
    };
    Op op = Make(kKinds[Below(static_cast<int>(std::size(kKinds)))]);
    op.a = 1 + static_cast<uint32_t>(Below(static_cast<int>(tokens_)));
    op.value = Time();
    if (op.kind == OpKind::kPollToken || op.kind == OpKind::kPollLane)
      op.value = 1 + Below(700);
    if (op.kind == OpKind::kWork)
      op.launch = Below(4) != 0;
    if (op.kind == OpKind::kWork && op.source == Source::kAssumed)
      op.b = static_cast<uint32_t>(3 * op.value);
    if (op.kind == OpKind::kMemory)
      op.value -= 1000;
    if (op.kind == OpKind::kQueryToken || op.kind == OpKind::kQueryLane)
      op.b = kAnswerUnknown;
    Add(rank, op);
  }

  void Event() {
    const int what = Below(20);
    const int group =
        usable_[static_cast<size_t>(Below(static_cast<int>(usable_.size())))];
    if (what < 2) {
      AddCollective(group);
    } else if (what < 4) {
      AddTransfers(group);
    } else if (what == 4 && Below(4) == 0) {
      AddSplit();
    } else if (what == 5 && Below(4) == 0) {
      const auto& members = job_.groups[static_cast<size_t>(group)].members;
      const auto i = static_cast<uint32_t>(Below(static_cast<int>(members.size())));
      Op op = Make(OpKind::kReleaseCommunicator);
      op.a = number_of_[{group, i}];
      op.b = static_cast<uint32_t>(ReleaseKind::kFinalize);
      Add(members[i], op);
    } else {
      for (int rank = 0; rank < ranks_; ++rank) {
        if (Below(2) == 0)
          AddLocal(rank);
      }
    }
  }

  RandomJobOptions options_;
  std::mt19937_64 random_;
  Job job_;
  int ranks_ = 0;
  uint32_t lanes_ = 0, tokens_ = 0;
  std::map<int, uint32_t> numbers_;
  std::map<std::pair<int, uint32_t>, uint32_t> number_of_;  // (group, index)
  std::map<int, uint32_t> splits_;
  std::vector<int> usable_;
};

}  // namespace

Job RandomJob(uint64_t seed, const RandomJobOptions& options) {
  return Generator(seed, options).Make();
}

}  // namespace vrank::graph
