#include "graph/program/rooted_transfers.h"

namespace vrank::graph {

RootedTransfers RootedTransfersOf(std::span<const Transfer> group, uint32_t index,
                                  uint32_t size) {
  if (group.empty() || (group.size() != 1 && group.size() != size - 1))
    return {};
  const bool is_send = group.front().is_send != 0;
  const uint64_t bytes = group.front().bytes;
  std::vector<bool> met(size);
  for (const Transfer& transfer : group) {
    if (transfer.peer >= size || transfer.peer == index || met[transfer.peer] ||
        transfer.bytes != bytes || (transfer.is_send != 0) != is_send)
      return {};
    met[transfer.peer] = true;
  }
  const bool leads = group.size() == size - 1;
  const uint32_t root = leads ? index : group.front().peer;
  const bool root_sends = leads == is_send;
  RootedTransfers parts;
  for (uint32_t i = 0; i < size; ++i) {
    if (i != root)
      parts.root.push_back({bytes, i | kAbsolutePeer, root_sends});
  }
  parts.others.push_back({bytes, root | kAbsolutePeer, !root_sends});
  return parts;
}

int64_t AddFollowersGroups(const RootedTransfers& parts, Program* program) {
  if (parts.empty())
    return 0;
  return FollowersGroups{program->AddTransfers(parts.root),
                         program->AddTransfers(parts.others)}
      .AsValue();
}

}  // namespace vrank::graph
