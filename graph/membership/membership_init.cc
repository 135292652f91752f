// Inits from unique ids: which group of the layout a communicator is, and which process
// each of its members lives in. The rules: membership_inference.h.

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guest/shared_id.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/membership_inference.h"

namespace vrank::graph {

absl::StatusOr<DimensionSet> MembershipInference::FindInitGroup(
    int32_t rank, const Processes& processes, const Creation& call,
    uint32_t number) const {
  const GroupHint* hint = FindHint(true, 0, number);
  std::vector<DimensionSet> fitting;
  for (DimensionSet set = 0; set <= layout_.all(); ++set) {
    if (layout_.GroupSize(set) != processes.count ||
        (hint && hint->dimensions != set)) {
      continue;
    }
    if (layout_.PlaceInGroup(rank, set) == processes.place) {
      fitting.push_back(set);
    }
  }
  if (fitting.size() == 1) {
    return fitting.front();
  }
  const std::string subject =
      fmt::format("communicator init {} of rank {} (size {}, index {})", number, rank,
                  call.ranks, call.rank);
  if (fitting.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the layout {} has no group of that size in which rank {} ({}) "
                    "has that place; correct --layout, or {}",
                    subject, layout_.ToString(), rank, layout_.Describe(rank),
                    AdviceToAdd(source_, "all its members")));
  }
  std::vector<std::string> names;
  for (DimensionSet set : fitting) {
    names.push_back(layout_.SetName(set));
  }
  GroupHint flag;
  flag.is_init = true;
  flag.number = number;
  flag.dimensions = fitting.front();
  return absl::FailedPreconditionError(
      fmt::format("{}: it may be the group by {}; say which with --group {}", subject,
                  fmt::join(names, " or by "), flag.ToString(layout_)));
}

absl::StatusOr<MembershipInference::Processes> MembershipInference::ProcessesOf(
    int32_t caller, const Creation& call) const {
  const auto world = static_cast<uint32_t>(layout_.world_size());
  Processes processes;
  processes.members_each = call.local_members;
  // Threads of one process that join one by one do not say how many they are.
  if (call.ranks / call.local_members > world && call.ranks % world == 0) {
    processes.members_each = call.ranks / world;
  }
  processes.count = call.ranks / processes.members_each;
  processes.place = call.rank / processes.members_each;
  if (call.ranks % processes.members_each != 0 || processes.count > world) {
    return absl::InvalidArgumentError(fmt::format(
        "rank {} joins a communicator of {} ranks with {} of them; {} processes cannot "
        "have equally many each",
        caller, call.ranks, call.local_members, world));
  }
  return processes;
}

absl::StatusOr<MembershipInference::InitGroup> MembershipInference::FindGroup(
    int32_t rank, int32_t caller, const Processes& processes, uint32_t number,
    const Creation& call) const {
  const std::string suffix =
      processes.members_each == 1 ? "" : fmt::format("x{}", processes.members_each);
  if (processes.count == 1 && processes.members_each > 1) {
    return InitGroup{fmt::format("process@{}{}", rank, suffix), 0, 0};
  }
  if (processes.count == static_cast<uint32_t>(layout_.world_size())) {
    if (static_cast<int32_t>(processes.place) != caller) {
      return absl::UnimplementedError(fmt::format(
          "rank {} joins the communicator of all {} ranks as index {}; with ranks that "
          "are played the index must be the rank, since the places of the others would "
          "be unknown",
          caller, processes.count, processes.place));
    }
    return InitGroup{"world" + suffix, layout_.all(), static_cast<uint32_t>(rank)};
  }
  ASSIGN_OR_RETURN(const DimensionSet set,
                   FindInitGroup(caller, processes, call, number));
  return InitGroup{fmt::format("{}@{}{}", layout_.SetName(set),
                               layout_.Combine(rank, set, 0), suffix),
                   set, static_cast<uint32_t>(layout_.PlaceInGroup(rank, set))};
}

// One list for all members: a list each would be quadratic in the size.
std::shared_ptr<const std::vector<int32_t>> MembershipInference::MembersOf(
    const InitGroup& group, int32_t rank, uint32_t members_each) {
  std::shared_ptr<const std::vector<int32_t>>& known = members_of_[group.name];
  if (known == nullptr) {
    std::vector<int32_t> members;
    for (const int32_t member : layout_.Group(rank, group.dimensions)) {
      members.insert(members.end(), members_each, member);
    }
    known = std::make_shared<const std::vector<int32_t>>(std::move(members));
  }
  return known;
}

absl::Status MembershipInference::CheckUniqueId(int32_t rank, const Creation& call,
                                                const std::string& identity) {
  if (std::equal(std::begin(kSharedIdPrefix), std::end(kSharedIdPrefix) - 1,
                 call.unique_id.begin())) {
    return absl::OkStatus();
  }
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
  } else if (by_id->second.identity != identity) {
    return absl::InvalidArgumentError(
        fmt::format("ranks {} and {} initialise with one unique id, but the layout {} "
                    "puts them into "
                    "different communicators ('{}', '{}'); correct --layout",
                    by_id->second.rank, rank, layout_.ToString(),
                    by_id->second.identity, identity));
  }
  if (std::find(of_one_run_.begin(), of_one_run_.end(), rank) == of_one_run_.end())
    return absl::OkStatus();
  const auto [by_name, new_name] =
      by_identity_.emplace(identity, std::pair(call.unique_id, rank));
  if (!new_name && by_name->second.first != call.unique_id) {
    return absl::InvalidArgumentError(
        fmt::format("ranks {} and {} initialise communicator '{}' with different "
                    "unique ids; all its "
                    "members need the id of one ncclGetUniqueId, and join their "
                    "communicators in one order",
                    by_name->second.second, rank, identity));
  }
  return absl::OkStatus();
}

absl::StatusOr<Membership::InitAnswer> MembershipInference::Init(int32_t rank,
                                                                 const Creation& call,
                                                                 bool is_follower) {
  if (call.ranks == 0 || call.rank >= call.ranks) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} initialises a communicator of {} ranks as index {}", rank,
                    call.ranks, call.rank));
  }
  // What a follower passes is its leader's; the leader's own place tells which group.
  const int32_t caller = is_follower ? LeaderOf(rank) : rank;
  if (caller < 0) {
    return absl::InternalError(fmt::format("rank {} follows nobody", rank));
  }
  ASSIGN_OR_RETURN(const Processes processes, ProcessesOf(caller, call));
  const uint32_t each = processes.members_each;
  const uint32_t number = inits_[rank]++ / each;
  ASSIGN_OR_RETURN(const InitGroup group,
                   FindGroup(rank, caller, processes, number, call));
  inferred_without_hint_ |= group.dimensions != 0 &&
                            group.dimensions != layout_.all() &&
                            FindHint(true, 0, number) == nullptr;

  InitAnswer answer;
  answer.members = MembersOf(group, rank, each);
  answer.index = group.place * each + call.rank % each;
  const uint32_t repeat = group_inits_[{rank, group.name}]++ / each;
  answer.identity = repeat == 0 ? group.name : fmt::format("{}#{}", group.name, repeat);
  if (!is_follower) {
    RETURN_IF_ERROR(CheckUniqueId(rank, call, answer.identity));
    if (group.dimensions != layout_.all() && processes.count > 1 &&
        number < kInitsWatched && FindHint(true, 0, number) == nullptr)
      group_inits_seen_[{number, group.dimensions}].push_back(
          {rank, processes.count, processes.place, answer.identity});
  }
  return answer;
}

std::vector<std::string> MembershipInference::TakenFromLayout() const {
  std::vector<std::string> taken;
  for (const auto& [key, inits] : group_inits_seen_) {
    const auto other = FindPartialInitGroup(layout_, inits);
    if (!other.has_value())
      continue;
    const InitObservation& first = inits.front();
    taken.push_back(fmt::format(
        "ranks {} or ranks {}: init {} of rank {}, place {} of {}",
        FormatRanks(layout_.Group(first.rank, key.second)), FormatRanks(*other),
        key.first, first.rank, first.place, first.size));
  }
  return taken;
}

}  // namespace vrank::graph
