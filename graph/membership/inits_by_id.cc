// See inits_by_id.h.

#include "graph/membership/inits_by_id.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/unique_id_check.h"

namespace vrank::graph {
namespace {

// "ranks 0-2"; out of order, or scattered, the first few.
std::string ListRanks(const std::vector<int32_t>& ranks) {
  constexpr size_t kShown = 8;
  const bool ascend = std::adjacent_find(ranks.begin(), ranks.end(),
                                         std::greater_equal<>()) == ranks.end();
  const std::string all = ascend ? FormatRanks(ranks) : "";
  const auto pieces = static_cast<size_t>(std::count(all.begin(), all.end(), ','));
  if (ascend && pieces < kShown)
    return "ranks " + all;
  const std::span<const int32_t> first(ranks.data(), std::min(ranks.size(), kShown));
  return fmt::format("ranks {}{}", fmt::join(first, ","),
                     ranks.size() > kShown ? ",..." : "");
}

}  // namespace

absl::StatusOr<std::optional<Membership::InitAnswer>> InitsById::Init(
    const InitCaller& caller, const InitProcesses& processes, const Creation& call) {
  const Key key(caller.rank, caller.number);
  const auto not_told =
      [](bool ambiguous) -> absl::StatusOr<std::optional<InitAnswer>> {
    // What this rank makes next is told apart by the names, unless several groups fit.
    if (ambiguous)
      return absl::UnavailableError("others are yet to pass the unique id");
    return InitAnswer{};
  };
  if (met_.contains(key))
    return Take(key);
  if (const auto waits = waiting_.find(key); waits != waiting_.end())
    return not_told(waits->second.ambiguous);
  const bool is_world = processes.count == static_cast<uint32_t>(layout_.world_size());
  std::vector<DimensionSet> fitting =
      groups_.Fitting(caller.rank, processes, caller.number);
  if (!calling_.whole_job_calls_in_this_run()) {
    if (is_world || (fitting.empty() && processes.count > calling_.of_one_run().size()))
      return std::nullopt;
    if (!fitting.empty()) {
      ASSIGN_OR_RETURN(const DimensionSet set,
                       choice_.Choose(caller.rank, processes, call, caller.number));
      if (!calling_.AllCallInThisRun(layout_.Group(caller.rank, set)))
        return std::nullopt;
      fitting = {set};
    }
  }
  const IdMeetings::Call own = CallOf(caller, call, fitting);
  ASSIGN_OR_RETURN(const Calls members,
                   meetings_.Join(call.unique_id, call.ranks, own));
  if (members.empty()) {
    const bool ambiguous = fitting.size() > 1;
    waiting_[key] = {call.unique_id, call.ranks, own.group, ambiguous};
    return not_told(ambiguous);
  }
  RETURN_IF_ERROR(Tell(members));
  return Take(key);
}

Membership::InitAnswer InitsById::Take(const Key& key) {
  const auto met = met_.find(key);
  InitAnswer answer = std::move(met->second);
  met_.erase(met);
  return answer;
}

IdMeetings::Call InitsById::CallOf(const InitCaller& caller, const Creation& call,
                                   const std::vector<DimensionSet>& fitting) {
  IdMeetings::Call own{caller.rank, caller.number, call.rank, "", 0, false};
  if (fitting.size() == 1) {
    own.group = groups_.NameOf(fitting.front(), caller.rank);
    own.repeat = repeats_.Next(caller.rank, own.group);
  }
  own.crosses = std::any_of(waiting_.lower_bound({caller.rank, 0}),
                            waiting_.lower_bound({caller.rank + 1, 0}),
                            [](const auto& waits) { return waits.second.ambiguous; });
  return own;
}

absl::Status InitsById::Tell(const Calls& members) {
  std::vector<int32_t> ranks;
  for (const IdMeetings::Call& member : members)
    ranks.push_back(member.rank);
  for (const IdMeetings::Call& member : members) {
    if (!calling_.whole_job_calls_in_this_run() && !member.group.empty() &&
        member.group != groups_.NameOf(ranks))
      return absl::InvalidArgumentError(fmt::format(
          "{} pass one unique id, but {} makes init {} of rank {} communicator '{}'; "
          "{}",
          ListRanks(ranks), layout_.Claim(), member.number, member.rank, member.group,
          layout_.Remedy()));
  }
  const std::string identity = NameOf(members, ranks);
  const auto list = std::make_shared<const std::vector<int32_t>>(std::move(ranks));
  for (const IdMeetings::Call& member : members) {
    met_[{member.rank, member.number}] = {identity, list, member.index};
    waiting_.erase({member.rank, member.number});
  }
  return absl::OkStatus();
}

// By what the first member had called before: never by which rank called first, nor by
// the id's bytes, which another run may have otherwise.
std::string InitsById::NameOf(const Calls& members, const std::vector<int32_t>& ranks) {
  const IdMeetings::Call& first = members.front();
  const std::string group = groups_.NameOf(ranks);
  if (!group.empty() && first.group == group)
    return RepeatedName(group, first.repeat);
  if (!group.empty() && first.group.empty() && !first.crosses)
    return RepeatedName(group, repeats_.Next(first.rank, group));
  return fmt::format("{}#init{}", group.empty() ? ListRanks(ranks) : group,
                     first.number);
}

std::string InitsById::DescribeOtherSizes(int32_t caller, const Creation& call,
                                          const std::set<int32_t>& known,
                                          const char* what) const {
  std::string text;
  for (const auto& [key, waits] : waiting_) {
    if (known.count(key.first) == 0 && waits.ranks != call.ranks &&
        MayBeOneId(key.first, waits.id, caller, call.unique_id))
      text += fmt::format("; rank {} passes {} for {} ranks (its init {})", key.first,
                          what, waits.ranks, key.second);
  }
  return text;
}

std::string InitsById::Describe(const InitCaller& caller, const Creation& call,
                                std::vector<int32_t>* awaited) const {
  const auto own = waiting_.find({caller.rank, caller.number});
  if (own == waiting_.end())
    return "";
  std::vector<std::pair<uint32_t, int32_t>> places;
  for (const IdMeetings::Call& each :
       meetings_.Waiting(call.unique_id, call.ranks, caller.rank))
    places.emplace_back(each.index, each.rank);
  std::sort(places.begin(), places.end());
  uint32_t last = 0;
  std::set<int32_t> callers;
  std::vector<std::string> called;
  std::string faults;
  for (const auto& [index, rank] : places) {
    if (!called.empty() && faults.empty() && index == last)
      faults = fmt::format("; index {} is passed more than once", index);
    last = index;
    callers.insert(rank);
    if (called.size() < 8)
      called.push_back(fmt::format("rank {} (index {})", rank, index));
  }
  faults += DescribeOtherSizes(caller.rank, call, callers, "it");
  // By the layout where one group fits; else it may be any rank.
  std::vector<int32_t> missing = calling_.of_one_run();
  const std::vector<DimensionSet> fitting = FittingGroups(caller, call);
  if (fitting.size() == 1)
    missing = layout_.Group(caller.rank, fitting.front());
  std::erase_if(missing, [&](int32_t rank) { return callers.count(rank) != 0; });
  awaited->insert(awaited->end(), missing.begin(), missing.end());
  const std::vector<int32_t> others = Elsewhere(call, callers);
  std::string text = fmt::format("{} of {} have passed its unique id: {}{}",
                                 places.size(), call.ranks, fmt::join(called, ", "),
                                 places.size() > called.size() ? ", ..." : "");
  if (fitting.size() == 1 && !missing.empty())
    text += fmt::format("; rank{} {} of communicator '{}' {} not",
                        missing.size() > 1 ? "s" : "", FormatRanks(missing),
                        own->second.group, missing.size() > 1 ? "have" : "has");
  text += faults;
  if (fitting.empty() && !calling_.whole_job_calls_in_this_run() && faults.empty())
    text += fmt::format(
        "; ranks that are not real may be its others, and {} has no group of {} in "
        "which rank {} has that index: {}, or add all its members to --real",
        layout_.Claim(), call.ranks, caller.rank, layout_.Remedy());
  if (!others.empty())
    text += fmt::format(
        "; rank{} {} {} with other ids for as many ranks: all members need the id of "
        "one ncclGetUniqueId, and none may wait for another communicator first",
        others.size() > 1 ? "s" : "", FormatRanks(others),
        others.size() > 1 ? "wait" : "waits");
  return text;
}

std::vector<DimensionSet> InitsById::FittingGroups(const InitCaller& caller,
                                                   const Creation& call) const {
  const absl::StatusOr<InitProcesses> processes = ProcessesOf(caller.rank, call);
  return processes.ok() ? groups_.Fitting(caller.rank, *processes, caller.number)
                        : std::vector<DimensionSet>();
}

std::vector<int32_t> InitsById::Elsewhere(const Creation& call,
                                          const std::set<int32_t>& callers) const {
  std::set<int32_t> elsewhere;
  for (const auto& [key, waits] : waiting_) {
    if (!callers.contains(key.first) && waits.ranks == call.ranks)
      elsewhere.insert(key.first);
  }
  return {elsewhere.begin(), elsewhere.end()};
}

absl::StatusOr<InitProcesses> InitsById::ProcessesOf(int32_t caller,
                                                     const Creation& call) const {
  const auto world = static_cast<uint32_t>(layout_.world_size());
  InitProcesses processes;
  processes.members_each = call.local_members;
  // Threads of one process that join one by one do not say how many they are.
  if (call.ranks / call.local_members > world && call.ranks % world == 0) {
    processes.members_each = call.ranks / world;
  }
  processes.count = call.ranks / processes.members_each;
  processes.place = call.rank / processes.members_each;
  if (call.ranks % processes.members_each != 0 || processes.count > world) {
    return absl::InvalidArgumentError(fmt::format(
        "rank {} initialises a communicator of {} ranks, as index {} of them and with "
        "{} in its process, but the job has {} processes, which cannot have equally "
        "many each{}; do all ranks pass the same size to ncclCommInitRank?",
        caller, call.ranks, call.rank, call.local_members, world,
        DescribeOtherSizes(caller, call, {}, "the same unique id")));
  }
  return processes;
}

}  // namespace vrank::graph
