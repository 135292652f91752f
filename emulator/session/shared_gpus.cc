#include "emulator/session/shared_gpus.h"

#include <algorithm>
#include <iterator>

#include "base/guest/shared_id.h"

namespace vrank::emulator {

void SharedGpus::Join(int32_t rank, uint64_t op, const protocol::CommInit& init) {
  UniqueId id;
  std::copy(std::begin(init.unique_id), std::end(init.unique_id), id.begin());
  if (IsSharedId(id.data()))
    SetMakerOfSharedId(id.data(), -1);
  const auto meeting = meetings_.try_emplace(id).first;
  std::vector<Member>& members = meeting->second.members;
  asked_[{rank, op}] = {meeting, members.size()};
  const int32_t node = ranks_per_node_ == 0 ? rank : rank / ranks_per_node_;
  members.push_back({init.rank, node, init.device});
}

std::optional<uint64_t> SharedGpus::Take(int32_t rank, uint64_t op) {
  if (asked_.empty())
    return std::nullopt;
  const auto asked = asked_.find({rank, op});
  if (asked == asked_.end())
    return std::nullopt;
  const auto [meeting, place] = asked->second;
  asked_.erase(asked);
  const std::vector<Member>& members = meeting->second.members;
  const Member& own = members[place];
  uint64_t value = 0;
  const auto shares = [&own](const Member& other) {
    return &other != &own && other.node == own.node && other.device == own.device;
  };
  for (const Member& other : members)
    if (own.device != protocol::kNone && shares(other) &&
        (value == 0 || other.index + 1 < value))
      value = uint64_t{other.index} + 1;
  if (++meeting->second.taken == members.size())
    meetings_.erase(meeting);
  return value;
}

}  // namespace vrank::emulator
