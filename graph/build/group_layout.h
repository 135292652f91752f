// Finds the layout of a job from the communicators that all its ranks are seen in.
//
// A layout fits if every communicator is one of its groups (of a split that some stages
// stay out of: what remains of one), if two children of one split never share a group,
// and if ranks of one class communicate alike. Those with fewer dimensions are tried
// first, then the one with the fewest classes is taken, then the first: two that fit
// arrange the communicators that there are in the same way.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_GROUP_LAYOUT_H_
#define VRANK_GRAPH_BUILD_GROUP_LAYOUT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/layout.h"
#include "graph/program/program.h"

namespace vrank::graph {

// What one rank did up to some point that all ranks have reached.
struct SeenRank {
  struct Communicator {
    std::string identity;
    std::vector<int32_t> members;  // world ranks, in order
  };
  const Program* program = nullptr;
  uint64_t end = 0;                                // ops up to that point
  std::map<uint32_t, Communicator> communicators;  // by the rank's own number
};

// REQUIRES: by_rank holds every rank of the world, in order.
absl::StatusOr<Layout> LayoutOfCommunicators(std::span<const SeenRank> by_rank);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_GROUP_LAYOUT_H_
