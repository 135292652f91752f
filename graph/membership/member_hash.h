// The colour that torch.distributed.new_group passes to ncclCommSplit.
//
// It is CPython's hash of the tuple of the members' ranks, ascending, without its sign
// and modulo 2^31 (torch 2.11, distributed_c10d.py, _process_group_color; CPython 3.8
// and later, Objects/tupleobject.c, which hashes as xxHash does). So one call tells all
// members of a group.
//
// Thread rule: a pure function.

#ifndef VRANK_GRAPH_MEMBERSHIP_MEMBER_HASH_H_
#define VRANK_GRAPH_MEMBERSHIP_MEMBER_HASH_H_

#include <cstdint>
#include <vector>

namespace vrank::graph {

// REQUIRES: ranks are not negative.
int64_t MemberHash(const std::vector<int32_t>& ranks);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_MEMBER_HASH_H_
