#include "emulator/world/shared_gpus.h"

#include <algorithm>

namespace vrank::emulator {

int32_t SharedGpus::NodeOf(int32_t rank) const {
  return ranks_per_node_ == 0 ? rank : rank / ranks_per_node_;
}

void SharedGpus::Join(int32_t rank, uint64_t op, const protocol::CommInit& init) {
  const bool is_first = ranks_per_node_ == 0 || rank % ranks_per_node_ == 0;
  asked_[{rank, op}] = {rank, init.communicator};
  joined_[{rank, init.communicator}] = {
      {init.rank, NodeOf(rank), init.device, init.local_members, is_first}, ""};
}

void SharedGpus::Bind(int32_t rank, uint32_t number, const std::string& identity,
                      std::span<const int32_t> world_ranks) {
  const auto joined = joined_.find({rank, number});
  if (joined == joined_.end())
    return;
  joined->second.communicator = identity;
  Meeting& meeting = meetings_[identity];
  meeting.members.push_back(joined->second.member);
  if (!meeting.nodes.empty())
    return;
  for (const int32_t member : world_ranks)
    meeting.nodes.push_back(NodeOf(member));
}

std::optional<uint32_t> SharedGpus::FindPlayedTwin(const Meeting& meeting,
                                                   const Member& own) {
  bool chosen = false, of_another = false;
  for (const Member& member : meeting.members) {
    if (member.node != own.node)
      continue;
    chosen |= member.device != 0 || member.of_process != 1;
    of_another |= !member.is_first;
  }
  if (chosen || !of_another)
    return std::nullopt;
  for (uint32_t index = 0; index < meeting.nodes.size(); ++index)
    if (meeting.nodes[index] == own.node &&
        std::none_of(meeting.members.begin(), meeting.members.end(),
                     [&](const Member& real) { return real.index == index; }))
      return index;
  return std::nullopt;
}

std::optional<uint64_t> SharedGpus::Take(int32_t rank, uint64_t op) {
  if (asked_.empty())
    return std::nullopt;
  const auto asked = asked_.find({rank, op});
  if (asked == asked_.end())
    return std::nullopt;
  const auto joined = joined_.find(asked->second);
  const Joined own = std::move(joined->second);
  joined_.erase(joined);
  asked_.erase(asked);
  // A member that withdraws is answered without one.
  const auto meeting = meetings_.find(own.communicator);
  if (meeting == meetings_.end())
    return 0;
  uint64_t value = 0;
  const auto shares = [&](const Member& other) {
    return other.index != own.member.index && other.node == own.member.node &&
           other.device == own.member.device;
  };
  for (const Member& other : meeting->second.members)
    if (own.member.device != protocol::kNone && shares(other) &&
        (value == 0 || other.index + 1 < value))
      value = uint64_t{other.index} + 1;
  if (value == 0)
    if (const auto twin = FindPlayedTwin(meeting->second, own.member); twin.has_value())
      value = (uint64_t{*twin} + 1) | protocol::kTwinIsPlayed;
  if (++meeting->second.taken == meeting->second.members.size())
    meetings_.erase(meeting);
  return value;
}

}  // namespace vrank::emulator
