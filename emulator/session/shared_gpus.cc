#include "emulator/session/shared_gpus.h"

namespace vrank::emulator {

void SharedGpus::Join(int32_t rank, uint64_t op, const protocol::CommInit& init) {
  const int32_t node = ranks_per_node_ == 0 ? rank : rank / ranks_per_node_;
  asked_[{rank, op}] = {rank, init.communicator};
  joined_[{rank, init.communicator}] = {{init.rank, node, init.device}, ""};
}

void SharedGpus::Bind(int32_t rank, uint32_t number, const std::string& identity) {
  const auto joined = joined_.find({rank, number});
  if (joined == joined_.end())
    return;
  joined->second.communicator = identity;
  meetings_[identity].members.push_back(joined->second.member);
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
  if (++meeting->second.taken == meeting->second.members.size())
    meetings_.erase(meeting);
  return value;
}

}  // namespace vrank::emulator
