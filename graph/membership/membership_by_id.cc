// Communicators whose members are told by the unique id alone, and what ids say where a
// layout tells. The rules: membership_inference.h.

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guest/shared_id.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/membership_inference.h"

namespace vrank::graph {
namespace {

std::string Repeated(const std::string& group, uint32_t repeat) {
  return repeat == 0 ? group : fmt::format("{}#{}", group, repeat);
}

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

bool Contains(const std::vector<int32_t>& ranks, int32_t rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Whether two ranks may be members of one communicator. Each may have made its id for
// itself where NCCL_COMM_ID gives one to all.
bool MayBeOneId(int32_t rank, UniqueId id, int32_t other_rank, UniqueId other) {
  if (IsSharedId(id.data()) && IsSharedId(other.data()) &&
      MakerOfSharedId(id.data()) == rank &&
      MakerOfSharedId(other.data()) == other_rank) {
    SetMakerOfSharedId(id.data(), -1);
    SetMakerOfSharedId(other.data(), -1);
  }
  return id == other;
}

}  // namespace

void MembershipInference::CompareIdsOf(const std::vector<int32_t>& ranks) {
  of_one_run_ = ranks;
  const std::set<int32_t> different(ranks.begin(), ranks.end());
  all_of_one_run_ = different.size() == static_cast<size_t>(layout_.world_size());
}

bool MembershipInference::AllCallInThisRun(const std::vector<int32_t>& ranks) const {
  return all_of_one_run_ || std::all_of(ranks.begin(), ranks.end(), [&](int32_t rank) {
           return Contains(of_one_run_, rank);
         });
}

absl::StatusOr<std::optional<Membership::InitAnswer>> MembershipInference::InitById(
    const InitCaller& caller, const Processes& processes, const Creation& call) {
  const std::pair key(caller.rank, caller.number);
  const auto not_told =
      [](bool ambiguous) -> absl::StatusOr<std::optional<InitAnswer>> {
    // What this rank makes next is told apart by the names, unless several groups fit.
    if (ambiguous)
      return absl::UnavailableError("others are yet to pass the unique id");
    return InitAnswer{};
  };
  const auto take = [&](auto met) {
    InitAnswer answer = std::move(met->second);
    met_.erase(met);
    return answer;
  };
  if (const auto met = met_.find(key); met != met_.end())
    return take(met);
  if (const auto waits = waiting_.find(key); waits != waiting_.end())
    return not_told(waits->second.ambiguous);
  const bool is_world = processes.count == static_cast<uint32_t>(layout_.world_size());
  std::vector<DimensionSet> fitting =
      FittingGroups(caller.rank, processes, caller.number);
  if (!all_of_one_run_) {
    if (is_world || (fitting.empty() && processes.count > of_one_run_.size()))
      return std::nullopt;
    if (!fitting.empty()) {
      ASSIGN_OR_RETURN(const DimensionSet set,
                       FindInitGroup(caller.rank, processes, call, caller.number));
      if (!AllCallInThisRun(layout_.Group(caller.rank, set)))
        return std::nullopt;
      fitting = {set};
    }
  }
  IdMeetings::Call own{caller.rank, caller.number, call.rank, "", 0, false};
  if (fitting.size() == 1) {
    own.group = NameOf(fitting.front(), caller.rank);
    own.repeat = group_inits_[{caller.rank, own.group}]++;
  }
  own.crosses = std::any_of(waiting_.lower_bound({caller.rank, 0}),
                            waiting_.lower_bound({caller.rank + 1, 0}),
                            [](const auto& waits) { return waits.second.ambiguous; });
  ASSIGN_OR_RETURN(const std::vector<IdMeetings::Call> members,
                   meetings_.Join(call.unique_id, call.ranks, own));
  if (members.empty()) {
    const bool ambiguous = fitting.size() > 1;
    waiting_[key] = {call.unique_id, call.ranks, own.group, ambiguous};
    return not_told(ambiguous);
  }
  RETURN_IF_ERROR(Tell(members));
  return take(met_.find(key));
}

absl::Status MembershipInference::Tell(const std::vector<IdMeetings::Call>& members) {
  std::vector<int32_t> ranks;
  for (const IdMeetings::Call& member : members)
    ranks.push_back(member.rank);
  for (const IdMeetings::Call& member : members) {
    if (!all_of_one_run_ && !member.group.empty() && member.group != GroupOf(ranks))
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

std::string MembershipInference::GroupOf(const std::vector<int32_t>& ranks) const {
  const DimensionSet set = layout_.Varying(ranks);
  return layout_.Group(ranks.front(), set) == ranks ? NameOf(set, ranks.front()) : "";
}

// By what the first member had called before: never by who called first, nor by the
// id's bytes, which another run may have otherwise.
std::string MembershipInference::NameOf(const std::vector<IdMeetings::Call>& members,
                                        const std::vector<int32_t>& ranks) {
  const IdMeetings::Call& first = members.front();
  const std::string group = GroupOf(ranks);
  if (!group.empty() && first.group == group)
    return Repeated(group, first.repeat);
  if (!group.empty() && first.group.empty() && !first.crosses)
    return Repeated(group, group_inits_[{first.rank, group}]++);
  return fmt::format("{}#init{}", group.empty() ? ListRanks(ranks) : group,
                     first.number);
}

std::string MembershipInference::DescribeOtherSizes(int32_t caller,
                                                    const Creation& call,
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

std::string MembershipInference::DescribeInit(const InitCaller& caller,
                                              const Creation& call,
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
  std::set<int32_t> callers, elsewhere;
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
  for (const auto& [key, waits] : waiting_) {
    if (callers.count(key.first) == 0 && waits.ranks == call.ranks)
      elsewhere.insert(key.first);
  }
  faults += DescribeOtherSizes(caller.rank, call, callers, "it");
  // By the layout where one group fits; else it may be anyone.
  std::vector<int32_t> missing = of_one_run_;
  const absl::StatusOr<Processes> processes = ProcessesOf(caller.rank, call);
  const std::vector<DimensionSet> fitting =
      processes.ok() ? FittingGroups(caller.rank, *processes, caller.number)
                     : std::vector<DimensionSet>();
  if (fitting.size() == 1)
    missing = layout_.Group(caller.rank, fitting.front());
  std::erase_if(missing, [&](int32_t rank) { return callers.count(rank) != 0; });
  awaited->insert(awaited->end(), missing.begin(), missing.end());
  const std::vector<int32_t> others(elsewhere.begin(), elsewhere.end());
  std::string text = fmt::format("{} of {} have passed its unique id: {}{}",
                                 places.size(), call.ranks, fmt::join(called, ", "),
                                 places.size() > called.size() ? ", ..." : "");
  if (fitting.size() == 1 && !missing.empty())
    text += fmt::format("; rank{} {} of communicator '{}' {} not",
                        missing.size() > 1 ? "s" : "", FormatRanks(missing),
                        own->second.group, missing.size() > 1 ? "have" : "has");
  text += faults;
  if (fitting.empty() && !all_of_one_run_ && faults.empty())
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

absl::Status MembershipInference::CheckUniqueId(int32_t rank, const Creation& call,
                                                const std::string& identity) {
  const auto [by_id, new_id] =
      by_unique_id_.emplace(call.unique_id, Stated{identity, rank});
  if (new_id) {
    unique_ids_.push_back(call.unique_id);
    if (unique_ids_.size() > kInitsWatched) {
      const auto oldest = by_unique_id_.find(unique_ids_.front());
      by_identity_.erase(oldest->second.identity);
      by_unique_id_.erase(oldest);
      unique_ids_.pop_front();
    }
  } else if (by_id->second.identity != identity &&
             (by_id->second.rank != rank || !IsSharedId(call.unique_id.data()))) {
    return absl::InvalidArgumentError(
        fmt::format("ranks {} and {} initialise with one unique id, but {} puts them "
                    "into different communicators ('{}', '{}'); {}",
                    by_id->second.rank, rank, layout_.Claim(), by_id->second.identity,
                    identity, layout_.Remedy()));
  }
  if (!Contains(of_one_run_, rank))
    return absl::OkStatus();
  const auto [by_name, new_name] =
      by_identity_.emplace(identity, std::pair(call.unique_id, rank));
  if (!new_name && !MayBeOneId(by_name->second.second, by_name->second.first, rank,
                               call.unique_id)) {
    return absl::InvalidArgumentError(
        fmt::format("ranks {} and {} initialise communicator '{}' with different "
                    "unique ids; all its "
                    "members need the id of one ncclGetUniqueId, and join their "
                    "communicators in one order",
                    by_name->second.second, rank, identity));
  }
  return absl::OkStatus();
}

}  // namespace vrank::graph
