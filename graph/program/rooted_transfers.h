// Gathers and scatters made of sends and receives: one member of a communicator, the
// root, exchanges one message with each of the others. So torch.distributed's gather
// and scatter do it, and what stands on them (gather_object,
// torch.distributed.checkpoint).
//
// A rank that follows another one has its peers as far from itself as that one
// (RankOptions::leader), as in a ring. Here that would make a root of every follower,
// or of none. Which it is can be told from the group of the leader alone, where all
// members of the communicator follow it or are its like: if all of them only sent, or
// only received, nothing would meet. So one of them is the root: the leader, where its
// group reaches all others; else its only peer.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_PROGRAM_ROOTED_TRANSFERS_H_
#define VRANK_GRAPH_PROGRAM_ROOTED_TRANSFERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/program/program.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// What the members of a communicator do, with absolute peers. Nobody: no root.
struct RootedTransfers {
  std::vector<Transfer> root;
  std::vector<Transfer> others;
  bool empty() const { return others.empty(); }
  uint32_t root_index() const { return others.front().peer & ~kAbsolutePeer; }
};

// `group`: of the member with this index. REQUIRES: all members are of one class.
RootedTransfers RootedTransfersOf(std::span<const Transfer> group, uint32_t index,
                                  uint32_t size);

// Op::value of kTransfers: both parts as groups of the op's own program.
struct FollowersGroups {
  uint32_t root = 0;
  uint32_t others = 0;

  static FollowersGroups Of(int64_t value) {
    return {static_cast<uint32_t>(value >> 32) - 1, static_cast<uint32_t>(value) - 1};
  }
  int64_t AsValue() const {
    return static_cast<int64_t>(uint64_t{root + 1} << 32 | (others + 1));
  }
};

// 0 where there is no root.
int64_t AddFollowersGroups(const RootedTransfers& parts, Program* program);

// The group that the member with this index takes part with, where it follows the rank
// that the op was taken from.
inline uint32_t GroupOfFollower(const Op& op, const Details& details, uint32_t index) {
  if (op.value == 0)
    return op.b;
  const FollowersGroups groups = FollowersGroups::Of(op.value);
  const uint32_t root = details.transfer_groups[groups.others].front().peer;
  return (root & ~kAbsolutePeer) == index ? groups.root : groups.others;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_PROGRAM_ROOTED_TRANSFERS_H_
