// What moves between which links when ranks communicate.
//
// Thread rule: const methods, from several threads.

#ifndef VRANK_GRAPH_FLOW_FLOW_MODEL_H_
#define VRANK_GRAPH_FLOW_FLOW_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/flow/flow_simulation.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// One part of a collective's data.
struct CollectivePiece {
  static constexpr uint32_t kEveryone = ~uint32_t{0};
  // The members that do not end before it has moved: these two, or everyone. It begins
  // to move for the first of them that has nothing else to wait for.
  uint32_t from = kEveryone, to = kEveryone;
  // alone_ns: the last part of the operation's cost; the part before it moves nothing.
  FlowPlan plan;
};

class FlowModel {
 public:
  virtual ~FlowModel() = default;

  // The links, numbered from 0 as the paths of plans number them.
  virtual void AddLinks(FlowSimulation* simulation) const = 0;
  // `members`: world rank of each. Plans without flows are left out.
  virtual std::vector<CollectivePiece> Collective(
      const CollectiveCall& call, std::span<const int32_t> members) const = 0;
  virtual FlowPlan Transfer(uint64_t bytes, int32_t from, int32_t to) const = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_FLOW_MODEL_H_
