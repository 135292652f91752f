// A graph's layout on lanes (base/guest/node_layout.h), child graphs laid out with the
// nodes around them.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_PLAN_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_PLAN_H_

#include <cstdint>
#include <vector>

#include "base/guest/node_layout.h"
#include "virtual_gpu/core/graph.h"

namespace vrank::gpu {

struct GraphStep {
  using Kind = LayoutStep::Kind;
  Kind kind = Kind::kNode;
  uint32_t lane = 0;
  uint32_t token = 0;  // kRecord, kWait
  GraphNode* node = nullptr;
};

struct GraphPlan {
  std::vector<GraphStep> steps;
  uint32_t lanes = 1;
  uint32_t tokens = 0;
  uint32_t done = 0;   // the token that is recorded last, on lane 0
  uint32_t nodes = 0;  // child graphs' included
};

// False where the graph, or a child graph, has a cycle.
bool MakePlan(const Graph& graph, GraphPlan* plan);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_PLAN_H_
