// What to check where ranks disagree on the members of a group.

#ifndef VRANK_BASE_NEW_GROUP_H_
#define VRANK_BASE_NEW_GROUP_H_

namespace vrank {

// PyTorch names a group by the number of new_group calls before it (torch 2.11,
// distributed_c10d.py, _process_group_name).
inline constexpr char kSameNewGroups[] =
    "in PyTorch every rank has to call new_group for every group, also where it is no "
    "member, with the same members and in the same order";

}  // namespace vrank

#endif  // VRANK_BASE_NEW_GROUP_H_
