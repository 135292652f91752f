// `--group PARENT:NUMBER=DIMENSIONS[@CLASSES]`: a person says what a split groups.
//
// For the rare split that cannot be inferred from the ranks that run for real. PARENT
// is the parent's dimensions as messages print them ("world", "tp-dp"), or "init" for a
// communicator that is made from a unique id; NUMBER counts the splits of that parent
// (or the inits of a rank) from 0; DIMENSIONS is the set that a group spans ("tp",
// "tp-dp", "none" for groups of one rank); CLASSES lists the pipeline stages that take
// part (or whose inits are meant), all if left out.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_MEMBERSHIP_GROUP_HINT_H_
#define VRANK_GRAPH_MEMBERSHIP_GROUP_HINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/layout.h"

namespace vrank::graph {

struct GroupHint {
  bool is_init = false;
  DimensionSet parent = 0;
  uint32_t number = 0;
  DimensionSet dimensions = 0;
  std::vector<int32_t> classes;  // empty: all

  // The flag's value that means this hint.
  std::string ToString(const Layout& layout) const;
};

absl::StatusOr<GroupHint> ParseGroupHint(const std::string& text, const Layout& layout);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_GROUP_HINT_H_
