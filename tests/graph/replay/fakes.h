// A network, a membership and an observer for tests of the engine.

#ifndef VRANK_TESTS_GRAPH_REPLAY_FAKES_H_
#define VRANK_TESTS_GRAPH_REPLAY_FAKES_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/engine.h"
#include "tests/graph/replay/oracle.h"

namespace vrank::graph {

// Costs that differ by call, size and members, so that a mix-up shows.
class FakeNetwork : public NetworkModel {
 public:
  uint64_t credit = 1000;

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override {
    return {Duration::Nanoseconds(500 + 10 * static_cast<int64_t>(call.operation) +
                                  static_cast<int64_t>(call.count * members.size())),
            Source::kModelled};
  }
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override {
    return {Duration::Nanoseconds(300 + static_cast<int64_t>(bytes) + from + 3 * to),
            Source::kRecorded};
  }
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return credit; }
  Cost Creation(std::span<const int32_t> members) const override {
    return {Duration::Nanoseconds(10'000 + 7 * static_cast<int64_t>(members.size())),
            Source::kAssumed};
  }
};

// The unique id of a job's group: its number in the first four bytes.
inline Creation InitOf(const Job& job, int group, uint32_t index) {
  Creation call;
  call.ranks =
      static_cast<uint32_t>(job.groups[static_cast<size_t>(group)].members.size());
  call.rank = index;
  std::memcpy(call.unique_id.data(), &group, sizeof(group));
  return call;
}

class FakeMembership : public Membership {
 public:
  // `first_waits`: who asks first for a group is told once another member has asked.
  explicit FakeMembership(const Job* job, bool first_waits = false)
      : job_(job), first_waits_(first_waits) {}

  absl::StatusOr<InitAnswer> Init(const InitCaller& caller,
                                  const Creation& call) override {
    int group = 0;
    std::memcpy(&group, call.unique_id.data(), sizeof(group));
    const Job::Group& known = job_->groups[static_cast<size_t>(group)];
    const auto present =
        std::count_if(known.members.begin(), known.members.end(),
                      [&](int32_t member) { return job_->absent.count(member) == 0; });
    asked_[group].insert(caller.rank);
    if (first_waits_ && present > 1 && asked_[group].size() == 1) {
      if (++waited_ % 2 == 0)
        return InitAnswer{};
      return absl::UnavailableError("not told yet");
    }
    return InitAnswer{known.identity,
                      std::make_shared<const std::vector<int32_t>>(known.members),
                      call.rank};
  }

  // By colour and key, as NCCL does; absent members as the job says.
  absl::StatusOr<std::vector<SplitGroup>> Split(
      std::string_view parent, uint32_t sequence,
      std::span<const SplitMember> members) override {
    int parent_group = -1;
    for (size_t i = 0; i < job_->groups.size(); ++i) {
      if (job_->groups[i].identity == parent)
        parent_group = static_cast<int>(i);
    }
    std::vector<SplitGroup> groups;
    for (const int child : job_->splits.at({parent_group, sequence})) {
      SplitGroup group;
      for (const int32_t rank : job_->groups[static_cast<size_t>(child)].members) {
        for (uint32_t i = 0; i < members.size(); ++i) {
          if (members[i].world_rank == rank)
            group.members.push_back(i);
        }
      }
      groups.push_back(std::move(group));
    }
    return groups;
  }

  uint64_t waited() const { return waited_; }

 private:
  const Job* job_;
  bool first_waits_;
  uint64_t waited_ = 0;
  std::map<int, std::set<int32_t>> asked_;  // by group
};

// Everything that was told, by a name that does not depend on the order of telling.
class RecordingObserver : public EngineObserver {
 public:
  struct Told {
    Stamp time, other;
    uint64_t value = 0;
    friend bool operator==(const Told&, const Told&) = default;
  };
  std::map<std::string, Told> told;
  std::map<std::pair<int32_t, uint64_t>, bool> queries;  // answers not yet taken
  std::map<std::pair<int32_t, uint64_t>, int64_t>
      not_before;  // ... their targets' ends
  std::map<std::pair<int32_t, uint64_t>, Stamp> answers;
  std::vector<std::pair<int32_t, uint64_t>> passed;
  bool record = true;

  // Retired launches are a lower bound, by what is known at the time of telling; so is
  // the end in the answer of a query. Both are left out.
  void OnHostAnswer(int32_t rank, uint64_t op, Stamp host, Stamp end, uint64_t,
                    uint64_t value) override {
    answers[{rank, op}] = host;
    Tell(fmt::format("answer {} {}", rank, op), host, end, value);
  }
  void OnQueryAnswer(int32_t rank, uint64_t op, Stamp host, bool complete, Stamp end,
                     uint64_t) override {
    queries[{rank, op}] = complete;
    not_before[{rank, op}] = end.ns;
    Tell(fmt::format("query {} {}", rank, op), host, {}, complete);
  }
  void OnHostPassed(int32_t rank, uint64_t op) override {
    passed.emplace_back(rank, op);
  }
  void OnHostFuncStart(int32_t rank, uint64_t op, Stamp start) override {
    Tell(fmt::format("hostfunc {} {}", rank, op), start, {}, 0);
  }
  void OnTokenEnd(int32_t rank, uint32_t token, uint32_t generation,
                  Stamp end) override {
    Tell(fmt::format("token {} {} {}", rank, token, generation), end, {}, 0);
  }
  void OnRange(int32_t rank, uint32_t name, bool begin, Stamp host) override {
    Tell(fmt::format("range {} {} {}", rank, name, begin), host, {}, 0);
  }
  void OnCollectiveEnd(const std::string& communicator, uint32_t sequence,
                       uint32_t member, int32_t rank, const CollectiveCall&,
                       Stamp arrival, Stamp end) override {
    Tell(fmt::format("collective {} {} {} {}", communicator, sequence, member, rank),
         end, arrival, 0);
  }
  void OnTransferEnd(const std::string& communicator, uint32_t from, uint32_t to,
                     uint32_t sequence, uint64_t bytes, bool is_send, int32_t rank,
                     Stamp arrival, Stamp end) override {
    Tell(fmt::format("transfer {} {} {} {} {} {}", communicator, from, to, sequence,
                     is_send ? "send" : "receive", rank),
         end, arrival, bytes);
  }
  void OnCommunicator(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> members, uint32_t index) override {
    Tell(fmt::format("communicator {} {} {}", rank, number, identity), {}, {},
         members.size() << 32 | index);
  }

 private:
  void Tell(const std::string& what, const Stamp& time, const Stamp& other,
            uint64_t value) {
    if (!record)
      return;
    if (!told.emplace(what, Told{time, other, value}).second)
      told["told twice: " + what] = {};
  }
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_REPLAY_FAKES_H_
