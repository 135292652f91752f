// Turns what is known of a job's communicators into hints
// (graph/membership/group_hint.h) for runs in which fewer calls are seen.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_HINT_COLLECTOR_H_
#define VRANK_TOOLS_JOB_HINT_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "graph/build/group_layout.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"

namespace vrank::tools {

class HintCollector {
 public:
  explicit HintCollector(graph::Layout layout) : layout_(std::move(layout)) {}

  // Communicators that the rank is no member of, or not yet, are missing.
  void AddRank(int32_t rank, const graph::SeenRank& seen);

  // One per init and split that means one set of dimensions wherever it was seen.
  std::vector<graph::GroupHint> Hints() const;

 private:
  struct Found {
    std::set<graph::DimensionSet> dimensions;
    std::set<int32_t> classes;
    bool regular = true;   // groups of the layout
    bool partial = false;  // some class takes no part
  };

  graph::Layout layout_;
  // By: is it an init, the parent's dimensions, the number there.
  std::map<std::tuple<bool, graph::DimensionSet, uint32_t>, Found> found_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_HINT_COLLECTOR_H_
