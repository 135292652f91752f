// How a graph is laid out on lanes: what a launch issues, in order.
//
// Each node goes onto one lane, behind a node that it waits for where that is possible,
// so that chains need no edges; other edges become a token that is recorded behind the
// one node and waited for before the other, unless what the lane has waited for already
// covers it. Lane 0 is the launching stream's: roots begin where that stream stands,
// and it goes on after all leaves. Child graphs are laid out with the nodes around
// them.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_PLAN_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_PLAN_H_

#include <cstdint>
#include <vector>

#include "virtual_gpu/core/graph.h"

namespace vrank::gpu {

struct GraphStep {
  enum class Kind : uint8_t { kNode, kRecord, kWait };
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
