// See unique_id_check.h.

#include "graph/membership/unique_id_check.h"

#include <fmt/format.h>

#include "base/guest/shared_id.h"
#include "graph/membership/seen_inits.h"

namespace vrank::graph {

bool MayBeOneId(int32_t rank, UniqueId id, int32_t other_rank, UniqueId other) {
  if (IsSharedId(id.data()) && IsSharedId(other.data()) &&
      MakerOfSharedId(id.data()) == rank &&
      MakerOfSharedId(other.data()) == other_rank) {
    SetMakerOfSharedId(id.data(), -1);
    SetMakerOfSharedId(other.data(), -1);
  }
  return id == other;
}

absl::Status UniqueIdCheck::Check(int32_t rank, const Creation& call,
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
  if (!calling_.CallsInThisRun(rank))
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
