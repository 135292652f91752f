// Whom the ranks of a class follow that have no calls of their own.

#ifndef VRANK_GRAPH_MEMBERSHIP_LEADER_H_
#define VRANK_GRAPH_MEMBERSHIP_LEADER_H_

#include <cstdint>

namespace vrank::graph {

// Whether others follow rank `a` rather than rank `b` of the same class: the lowest one
// leads, but rank 0 only where it is alone, since it does what no other does (it prints
// losses, logs, saves).
inline bool LeadsBefore(int32_t a, int32_t b) {
  return (a == 0) != (b == 0) ? b == 0 : a < b;
}

// `leader` becomes `rank` where that leads before it.
inline void TakeLead(int32_t* leader, int32_t rank) {
  if (LeadsBefore(rank, *leader))
    *leader = rank;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_LEADER_H_
