#include "graph/membership/pair_inits.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/membership/deciding_rank.h"
#include "graph/schema/pair_id.h"

namespace vrank::graph {

absl::StatusOr<std::optional<Membership::InitAnswer>> PairInits::Init(
    int32_t rank, int32_t leader, const Creation& call) {
  if (call.ranks != 2)
    return std::nullopt;
  Membership::PairEnds ends;
  if (const auto pair = PairOfId(call.unique_id)) {
    ends = {static_cast<uint32_t>(pair->first), static_cast<uint32_t>(pair->second),
            true};
  } else {
    const auto known = ends_.find(call.unique_id);
    if (known == ends_.end())
      return std::nullopt;
    ends = known->second;
  }
  const auto [low, high, of_world] = ends;
  ASSIGN_OR_RETURN(const int32_t leaders_peer,
                   PeerOf(leader, call.rank == 0 ? low : high,
                          call.rank == 0 ? high : low, of_world));
  RETURN_IF_ERROR(CheckClasses(leader, leaders_peer));
  const int32_t peer =
      layout_.Combine(rank, layout_.Varying({leader, leaders_peer}), leaders_peer);
  std::vector<int32_t> members = {rank, peer};
  if (call.rank == 1)
    std::swap(members[0], members[1]);
  const std::string name = fmt::format("{}{},{}", kPairName, members[0], members[1]);
  Membership::InitAnswer answer;
  answer.identity = RepeatedName(name, repeats_.Next(rank, name));
  answer.members = std::make_shared<const std::vector<int32_t>>(std::move(members));
  answer.index = call.rank;
  return answer;
}

// `own`, `other`: places in the process group.
absl::StatusOr<int32_t> PairInits::PeerOf(int32_t leader, uint32_t own, uint32_t other,
                                          bool of_world) const {
  const std::string subject = fmt::format(
      "rank {} joins a communicator for its sends and receives with rank {} of a group "
      "in which it is rank {}",
      leader, other, own);
  const bool in_world = other < static_cast<uint32_t>(layout_.world_size());
  if (of_world && in_world && own == static_cast<uint32_t>(leader))
    return static_cast<int32_t>(other);
  std::set<int32_t> peers;
  DimensionSet pipeline = 0;
  for (size_t i = 0; i < layout_.dimensions().size(); ++i)
    pipeline |= DimensionSet{layout_.dimensions()[i].name == "pp"} << i;
  for (DimensionSet set = 1; set <= layout_.all() && !of_world; ++set) {
    if (layout_.GroupSize(set) <= other || layout_.PlaceInGroup(leader, set) != own)
      continue;
    const int32_t peer = layout_.Group(leader, set)[other];
    if (set == pipeline)
      return peer;
    peers.insert(peer);
  }
  if (peers.size() == 1)
    return *peers.begin();
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} {}; {}, or pass device_id to init_process_group, with which the group's "
      "own communicator carries them",
      subject, layout_.Claim(),
      peers.empty()
          ? std::string("has no such group")
          : fmt::format("has several such groups, in which that is one of ranks {}",
                        FormatRanks(std::vector<int32_t>(peers.begin(), peers.end()))),
      layout_.Remedy()));
}

// Who follows a rank at one end is at the same end of another pair.
absl::Status PairInits::CheckClasses(int32_t leader, int32_t peer) const {
  const int32_t one_class = layout_.ClassOf(leader);
  // While a slice is traced there are no followers.
  if (layout_.ClassOf(peer) != one_class || calling_.source() == CallSource::kSlice)
    return absl::OkStatus();
  std::vector<int32_t> followers;
  for (int32_t rank = 0; rank < layout_.world_size(); ++rank)
    if (layout_.ClassOf(rank) == one_class &&
        !std::binary_search(calling_.own_calls().begin(), calling_.own_calls().end(),
                            rank))
      followers.push_back(rank);
  if (followers.empty())
    return absl::OkStatus();
  absl::Status status = absl::FailedPreconditionError(fmt::format(
      "rank {} makes a communicator for its sends to rank {} and receives from it, and "
      "the ranks that follow it cannot all do the same: where it is a pipeline, state "
      "its stages (like --layout pp=4) and make a rank of each real; else make rank{} "
      "{} real, too (--real)",
      leader, peer, followers.size() == 1 ? "" : "s", FormatRanks(followers)));
  if (followers.size() <= kMostDecidingRanks)
    AttachDecidingRanks(followers, &status);
  return status;
}

}  // namespace vrank::graph
