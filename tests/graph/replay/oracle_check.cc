// See oracle_check.h.

#include "tests/graph/replay/oracle_check.h"

#include <fmt/format.h>

namespace vrank::graph {
namespace {

class Expectations {
 public:
  Expectations(const Job& job, const NetworkModel& network)
      : job_(job), oracle_(job, network) {}

  std::map<std::string, Expected> Collect() {
    for (int rank = 0; rank < static_cast<int>(job_.programs.size()); ++rank) {
      if (job_.absent.count(rank) == 0)
        CollectRank(rank);
    }
    return std::move(expected_);
  }

 private:
  void CollectRank(int rank) {
    tokens_.clear();
    collectives_.clear();
    const Program& program = *job_.programs[static_cast<size_t>(rank)];
    for (int i = 0; i < static_cast<int>(program.size()); ++i) {
      const Op& op = program.op(static_cast<uint64_t>(i));
      switch (op.kind) {
        case OpKind::kHostWaitToken:
        case OpKind::kHostWaitLane:
        case OpKind::kPollToken:
        case OpKind::kPollLane:
        case OpKind::kReleaseCommunicator:
          Expect(fmt::format("answer {} {}", rank, i), oracle_.HostAfter(rank, i),
                 oracle_.TargetEnd(rank, i), 0);
          break;
        case OpKind::kAskClock:
          Expect(fmt::format("answer {} {}", rank, i), oracle_.HostAfter(rank, i),
                 oracle_.HostAfter(rank, i), 0);
          break;
        case OpKind::kQueryToken:
        case OpKind::kQueryLane:
          Expect(fmt::format("query {} {}", rank, i), oracle_.HostAfter(rank, i), 0,
                 oracle_.TargetEnd(rank, i) <= oracle_.HostBefore(rank, i));
          break;
        case OpKind::kHostFunc:
          Expect(fmt::format("hostfunc {} {}", rank, i),
                 oracle_.End(rank, i) - op.value, 0, 0);
          break;
        case OpKind::kRecordToken:
          Expect(fmt::format("token {} {} {}", rank, op.a, ++tokens_[op.a]),
                 oracle_.End(rank, i), 0, 0);
          break;
        case OpKind::kCreateCommunicator:
          CollectCreation(rank, i, op);
          break;
        case OpKind::kCollective: {
          const auto [group, index] = job_.communicators.at({rank, op.a});
          Expect(fmt::format("collective {} {} {} {}", Identity(group),
                             collectives_[op.a]++, index, rank),
                 oracle_.End(rank, i), oracle_.Arrival(rank, i), 0);
          break;
        }
        case OpKind::kTransfers:
          CollectTransfers(rank, i, op);
          break;
        default:
          break;
      }
    }
  }

  void CollectCreation(int rank, int i, const Op& op) {
    const auto [group, index] = job_.communicators.at({rank, op.a});
    uint64_t value = 0;
    if (group >= 0) {
      value = job_.groups[static_cast<size_t>(group)].members.size() << 32 | index;
      Expect(fmt::format("communicator {} {} {}", rank, op.a, Identity(group)), 0, 0,
             value);
    }
    const int64_t host = oracle_.HostAfter(rank, i);
    Expect(fmt::format("answer {} {}", rank, i), host, host, value);
  }

  void CollectTransfers(int rank, int i, const Op& op) {
    const auto [group, own] = job_.communicators.at({rank, op.a});
    for (const Transfer& t :
         job_.programs[static_cast<size_t>(rank)]->details().transfer_groups[op.b]) {
      const bool send = t.is_send != 0;
      const uint32_t from = send ? own : t.peer;
      const uint32_t to = send ? t.peer : own;
      const int number = numbers_[{group, from, to, send}]++;
      Expect(fmt::format("transfer {} {} {} {} {} {}", Identity(group), from, to,
                         number, send ? "send" : "receive", rank),
             send ? oracle_.SendEnd(group, from, to, number)
                  : oracle_.ReceiveEnd(group, from, to, number),
             oracle_.Arrival(rank, i), t.bytes);
    }
  }

  void Expect(const std::string& what, int64_t ns, int64_t other_ns, uint64_t value) {
    expected_[what] = {ns, other_ns, value};
  }
  const std::string& Identity(int group) const {
    return job_.groups[static_cast<size_t>(group)].identity;
  }

  const Job& job_;
  Oracle oracle_;
  std::map<std::string, Expected> expected_;
  std::map<uint32_t, int> tokens_, collectives_;
  std::map<std::tuple<int, uint32_t, uint32_t, bool>, int> numbers_;
};

}  // namespace

std::map<std::string, Expected> ExpectedOf(const Job& job,
                                           const NetworkModel& network) {
  return Expectations(job, network).Collect();
}

std::unique_ptr<Program> CopyOf(const Program& program, uint64_t ops, bool retain) {
  auto copy = std::make_unique<Program>(retain);
  for (const CollectiveCall& call : program.details().collectives)
    copy->AddCollective(call);
  for (const auto& group : program.details().transfer_groups)
    copy->AddTransfers(group);
  for (const Creation& creation : program.details().creations)
    copy->AddCreation(creation);
  for (uint64_t i = 0; i < ops; ++i)
    copy->Append(program.op(i));
  return copy;
}

std::string Difference(const std::map<std::string, Expected>& expected,
                       const std::map<std::string, RecordingObserver::Told>& told) {
  for (const auto& [what, is] : told) {
    const auto it = expected.find(what);
    if (it == expected.end())
      return fmt::format("unexpected: {}", what);
    const Expected got{is.time.ns, is.other.ns, is.value};
    if (got != it->second) {
      return fmt::format("{}: expected {} ({}, value {}), is {} ({}, value {})", what,
                         it->second.ns, it->second.other_ns, it->second.value, got.ns,
                         got.other_ns, got.value);
    }
  }
  for (const auto& [what, unused] : expected) {
    if (told.count(what) == 0)
      return fmt::format("missing: {}", what);
  }
  return "";
}

}  // namespace vrank::graph
