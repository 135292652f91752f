#include "graph/import/schedule_partners.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/import/schedule.pb.h"

namespace vrank::graph {
namespace {

std::optional<CollectiveKind> KindOf(const std::string& operation) {
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::kScatter); ++kind)
    if (operation == Name(static_cast<CollectiveKind>(kind)))
      return static_cast<CollectiveKind>(kind);
  return std::nullopt;
}

// What one rank does with a group, or with another rank, in order.
struct Uses {
  std::vector<std::string> operations;
  std::vector<int64_t> lengths_ns;
};

class PartnerSearch {
 public:
  explicit PartnerSearch(const Schedule& schedule) : schedule_(schedule) {}

  absl::StatusOr<SchedulePartners> Run() {
    RETURN_IF_ERROR(FindGroups());
    for (const ScheduleRank& rank : schedule_.rank())
      for (const ScheduleStep& step : rank.step())
        for (const ScheduleTask& task : step.task())
          RETURN_IF_ERROR(AddTask(rank.rank(), step, task));
    for (auto& [name, group] : out_.groups)
      RETURN_IF_ERROR(MatchGroup(name, &group));
    RETURN_IF_ERROR(MatchTransfers());
    return std::move(out_);
  }

 private:
  absl::Status FindGroups() {
    for (const ScheduleGroup& group : schedule_.group()) {
      const std::vector<int32_t> members(group.rank().begin(), group.rank().end());
      const bool ascending =
          std::adjacent_find(members.begin(), members.end(), [](int32_t a, int32_t b) {
            return a >= b;
          }) == members.end();
      if (members.empty() || !ascending || members.front() < 0 ||
          members.back() >= schedule_.world_size())
        return absl::InvalidArgumentError(
            fmt::format("group '{}': its ranks are not ascending ranks of a world of "
                        "{}; correct them",
                        group.name(), schedule_.world_size()));
      if (!out_.groups.try_emplace(group.name(), SchedulePartners::Group{members, {}})
               .second)
        return absl::InvalidArgumentError(fmt::format(
            "group '{}' is listed twice; give each a name of its own", group.name()));
    }
    return absl::OkStatus();
  }

  absl::Status AddTask(int32_t rank, const ScheduleStep& step,
                       const ScheduleTask& task) {
    const auto wrong = [&](const std::string& why) {
      return absl::InvalidArgumentError(fmt::format("rank {}, {}, task '{}': {}", rank,
                                                    step.name(), task.name(), why));
    };
    const int partners =
        !task.group().empty() + task.has_send_to() + task.has_receive_from();
    if (partners > 1)
      return wrong("it has a group, a send or a receive; give one of these");
    if (!task.group().empty()) {
      const auto group = out_.groups.find(task.group());
      if (group == out_.groups.end())
        return wrong(fmt::format("there is no group '{}'; list it", task.group()));
      const auto& members = group->second.members;
      if (!std::binary_search(members.begin(), members.end(), rank))
        return wrong(fmt::format("the rank is not in group '{}'", task.group()));
      if (!KindOf(task.operation()).has_value())
        return wrong(
            fmt::format("there is no operation '{}'; there are all_reduce, "
                        "all_gather, reduce_scatter, broadcast, reduce, "
                        "all_to_all, gather, scatter",
                        task.operation()));
      Add(task.operation(), task.ns(), &group_uses_[{task.group(), rank}]);
    }
    if (task.has_send_to() || task.has_receive_from()) {
      const int32_t peer = task.has_send_to() ? task.send_to() : task.receive_from();
      if (peer < 0 || peer >= schedule_.world_size() || peer == rank)
        return wrong(fmt::format("rank {} is no other rank of a world of {}", peer,
                                 schedule_.world_size()));
      if (task.has_send_to())
        Add("send", task.ns(), &sends_[{rank, peer}]);
      else
        Add("receive", task.ns(), &receives_[{peer, rank}]);
    }
    return absl::OkStatus();
  }

  static void Add(const std::string& operation, int64_t ns, Uses* uses) {
    uses->operations.push_back(operation);
    uses->lengths_ns.push_back(ns);
  }

  absl::Status MatchGroup(const std::string& name, SchedulePartners::Group* group) {
    const int32_t first_rank = group->members.front();
    const Uses& first = group_uses_[{name, first_rank}];
    for (const int32_t rank : group->members) {
      const Uses& other = group_uses_[{name, rank}];
      if (other.operations.size() != first.operations.size())
        return absl::InvalidArgumentError(fmt::format(
            "group '{}': rank {} has {} collectives and rank {} has {}; give the same "
            "steps of all ranks",
            name, first_rank, first.operations.size(), rank, other.operations.size()));
      for (size_t i = 0; i < first.operations.size(); ++i)
        if (other.operations[i] != first.operations[i])
          return absl::InvalidArgumentError(fmt::format(
              "group '{}': collective {} is {} on rank {} and {} on rank "
              "{}; correct their order",
              name, i, first.operations[i], first_rank, other.operations[i], rank));
    }
    for (size_t i = 0; i < first.operations.size(); ++i) {
      int64_t shortest = first.lengths_ns[i];
      for (const int32_t rank : group->members)
        shortest = std::min(shortest, group_uses_[{name, rank}].lengths_ns[i]);
      CollectiveCall call;
      call.operation = *KindOf(first.operations[i]);
      call.count = 0;  // no timer shows it
      call.recorded_ns = static_cast<uint64_t>(shortest);
      group->calls.push_back(call);
    }
    return absl::OkStatus();
  }

  absl::Status MatchTransfers() {
    for (const auto& [pair, uses] : receives_)
      sends_.try_emplace(pair);  // one without a send shows as such
    for (const auto& [pair, sent] : sends_) {
      const Uses& received = receives_[pair];
      if (sent.lengths_ns.size() != received.lengths_ns.size())
        return absl::InvalidArgumentError(fmt::format(
            "rank {} sends {} times to rank {}, which receives {} times from it; give "
            "the same steps of both",
            pair.first, sent.lengths_ns.size(), pair.second,
            received.lengths_ns.size()));
      const auto [from, to] = pair;
      if (!out_.groups
               .try_emplace(PairName(from, to),
                            SchedulePartners::Group{
                                {std::min(from, to), std::max(from, to)}, {}})
               .second)
        return absl::InvalidArgumentError(
            fmt::format("group '{}': what that rank sends has this name; give the "
                        "group another one",
                        PairName(from, to)));
      std::vector<int64_t>& lengths = out_.transfers_ns[pair];
      for (size_t i = 0; i < sent.lengths_ns.size(); ++i)
        lengths.push_back(std::min(sent.lengths_ns[i], received.lengths_ns[i]));
    }
    return absl::OkStatus();
  }

  const Schedule& schedule_;
  SchedulePartners out_;
  std::map<std::pair<std::string, int32_t>, Uses> group_uses_;
  std::map<std::pair<int32_t, int32_t>, Uses> sends_, receives_;
};

}  // namespace

std::string PairName(int32_t from, int32_t to) {
  return fmt::format("rank {} to rank {}", from, to);
}

absl::StatusOr<SchedulePartners> FindPartners(const Schedule& schedule) {
  return PartnerSearch(schedule).Run();
}

}  // namespace vrank::graph
