#include "graph/membership/id_meetings.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/guest/shared_id.h"
#include "base/new_group.h"
#include "base/rank_list.h"
#include "base/status_macros.h"

namespace vrank::graph {
namespace {

UniqueId TextOf(UniqueId id) {
  SetMakerOfSharedId(id.data(), -1);
  return id;
}

// Whether each of `calls` has a place of its own below `ranks`.
bool FillPlaces(const std::vector<IdMeetings::Call>& calls, uint32_t ranks) {
  if (calls.size() != ranks)
    return false;
  std::vector<bool> taken(ranks);
  for (const IdMeetings::Call& call : calls) {
    if (taken[call.index])
      return false;
    taken[call.index] = true;
  }
  return true;
}

// Whether others than its maker have passed an id.
bool IsHandedOut(const std::vector<IdMeetings::Call>& calls, int64_t maker) {
  return std::any_of(calls.begin(), calls.end(),
                     [&](const IdMeetings::Call& call) { return call.rank != maker; });
}

}  // namespace

const std::vector<int32_t>* IdMeetings::Met(const Key& key) const {
  const auto met = met_.find(key);
  return met == met_.end() ? nullptr : &met->second;
}

absl::StatusOr<std::vector<IdMeetings::Call>> IdMeetings::Join(const UniqueId& id,
                                                               uint32_t ranks,
                                                               const Call& call) {
  const Key handed_out{id, 0};
  if (!IsSharedId(id.data()))
    return Add(handed_out, ranks, call, /*places_are_own=*/true);
  const Key own{TextOf(id), ranks};
  const int64_t maker = MakerOfSharedId(id.data());
  if (maker != call.rank) {
    // So the maker has handed it out.
    Remove(own, static_cast<int32_t>(maker));
    return Add(handed_out, ranks, call, /*places_are_own=*/true);
  }
  ASSIGN_OR_RETURN(std::vector<Call> members, Add(handed_out, ranks, call, true));
  if (!members.empty())
    return members;
  if (IsHandedOut(open_.at(handed_out).calls, maker))
    return members;
  ASSIGN_OR_RETURN(members, Add(own, ranks, call, /*places_are_own=*/false));
  for (const Call& member : members) {
    UniqueId theirs = id;
    SetMakerOfSharedId(theirs.data(), member.rank);
    Remove({theirs, 0}, member.rank);
  }
  return members;
}

absl::StatusOr<std::vector<IdMeetings::Call>> IdMeetings::Add(const Key& key,
                                                              uint32_t ranks,
                                                              const Call& call,
                                                              bool places_are_own) {
  // With NCCL_COMM_ID a program may use an id again, for the same ranks.
  const std::vector<int32_t>* met = Met(key);
  if (met != nullptr && (!IsSharedId(key.first.data()) ||
                         !std::binary_search(met->begin(), met->end(), call.rank)))
    return absl::InvalidArgumentError(fmt::format(
        "communicator init {} of rank {} (size {}, index {}): its unique id has made "
        "the communicator of rank{} {} already, which {} all its members; every "
        "communicator needs an id of its own, from a ncclGetUniqueId; {}",
        call.number, call.rank, ranks, call.index, met->size() > 1 ? "s" : "",
        FormatRanks(*met), met->size() > 1 ? "are" : "is", kSameNewGroups));
  Meeting& meeting = open_.try_emplace(key, Meeting{ranks, {}}).first->second;
  if (meeting.ranks != ranks) {
    const Call& first = meeting.calls.front();
    return absl::InvalidArgumentError(
        fmt::format("ranks {} and {} initialise with one unique id, but rank {} passes "
                    "{} ranks (its init {}), rank {} passes {} (its init {}); {}",
                    first.rank, call.rank, first.rank, meeting.ranks, first.number,
                    call.rank, ranks, call.number, kSameNewGroups));
  }
  const auto twin =
      std::find_if(meeting.calls.begin(), meeting.calls.end(),
                   [&](const Call& other) { return other.index == call.index; });
  if (twin != meeting.calls.end() && places_are_own)
    return absl::InvalidArgumentError(fmt::format(
        "ranks {} and {} initialise with one unique id, and both pass index {} of {} "
        "(init {} of rank {}, init {} of rank {}); {}",
        twin->rank, call.rank, call.index, ranks, twin->number, twin->rank, call.number,
        call.rank, kSameNewGroups));
  meeting.calls.push_back(call);
  if (!FillPlaces(meeting.calls, ranks))
    return std::vector<Call>{};
  return Complete(open_.find(key));
}

std::vector<IdMeetings::Call> IdMeetings::Complete(
    std::map<Key, Meeting>::iterator meeting) {
  const Key key = meeting->first;
  std::vector<Call> calls = std::move(meeting->second.calls);
  open_.erase(meeting);
  std::sort(calls.begin(), calls.end(),
            [](const Call& a, const Call& b) { return a.index < b.index; });
  std::vector<int32_t> ranks;
  for (const Call& call : calls) {
    ranks.push_back(call.rank);
    if (IsSharedId(key.first.data()))
      Remove({TextOf(key.first), static_cast<uint32_t>(calls.size())}, call.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  if (met_.insert_or_assign(key, std::move(ranks)).second)
    met_keys_.push_back(key);
  if (met_keys_.size() > kRemembered) {
    met_.erase(met_keys_.front());
    met_keys_.pop_front();
  }
  return calls;
}

void IdMeetings::Remove(const Key& key, int32_t rank) {
  const auto meeting = open_.find(key);
  if (meeting == open_.end())
    return;
  std::erase_if(meeting->second.calls,
                [&](const Call& call) { return call.rank == rank; });
  if (meeting->second.calls.empty())
    open_.erase(meeting);
}

std::vector<IdMeetings::Call> IdMeetings::Waiting(const UniqueId& id, uint32_t ranks,
                                                  int32_t rank) const {
  const auto handed_out = open_.find({id, 0});
  if (IsSharedId(id.data()) && MakerOfSharedId(id.data()) == rank &&
      (handed_out == open_.end() || !IsHandedOut(handed_out->second.calls, rank))) {
    const auto own = open_.find({TextOf(id), ranks});
    if (own != open_.end())
      return own->second.calls;
  }
  return handed_out == open_.end() ? std::vector<Call>{} : handed_out->second.calls;
}

}  // namespace vrank::graph
