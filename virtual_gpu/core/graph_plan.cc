// Child graphs are laid out with the nodes around them; the rest is node_layout.h.

#include "virtual_gpu/core/graph_plan.h"

#include <unordered_map>
#include <utility>

#include "base/guest/node_layout.h"

namespace vrank::gpu {
namespace {

class Flattener {
 public:
  // `entry`: what the graph's roots wait for. Appends the places that nothing in the
  // graph waits for to `leaves`. False where there is a cycle.
  bool Flatten(const Graph& graph, const std::vector<uint32_t>& entry,
               std::vector<uint32_t>* leaves);

  NodeEdges before;
  std::vector<GraphNode*> nodes;  // nullptr: a place where a child graph ends
  uint32_t count = 0;             // child graphs included

 private:
  uint32_t Add(GraphNode* node, std::vector<uint32_t> waits_for) {
    nodes.push_back(node);
    before.push_back(std::move(waits_for));
    return static_cast<uint32_t>(nodes.size() - 1);
  }
};

bool Flattener::Flatten(const Graph& graph, const std::vector<uint32_t>& entry,
                        std::vector<uint32_t>* leaves) {
  std::vector<GraphNode*> ordered;
  if (!graph.Order(&ordered))
    return false;
  std::unordered_map<const GraphNode*, uint32_t> place_of;
  for (GraphNode* node : ordered) {
    ++count;
    std::vector<uint32_t> waits_for;
    for (const GraphLink& link : node->before)
      waits_for.push_back(place_of.at(link.node));
    if (waits_for.empty())
      waits_for = entry;
    if (const auto* child = std::get_if<ChildContent>(&node->content)) {
      std::vector<uint32_t> ends;
      if (!Flatten(*child->graph, waits_for, &ends))
        return false;
      place_of[node] = Add(nullptr, ends.empty() ? waits_for : std::move(ends));
    } else {
      place_of[node] = Add(node, std::move(waits_for));
    }
  }
  for (GraphNode* node : ordered)
    if (node->after.empty())
      leaves->push_back(place_of.at(node));
  return true;
}

}  // namespace

bool MakePlan(const Graph& graph, GraphPlan* plan) {
  using Kind = LayoutStep::Kind;
  Flattener flat;
  std::vector<uint32_t> leaves;
  if (!flat.Flatten(graph, {}, &leaves))
    return false;
  const NodeLayout layout = NodePlanner(flat.before).LayOut();
  *plan = {};
  plan->lanes = layout.lanes;
  plan->tokens = layout.tokens;
  plan->done = layout.done;
  plan->nodes = flat.count;
  for (const LayoutStep& step : layout.steps) {
    GraphNode* const node = step.kind == Kind::kNode ? flat.nodes[step.node] : nullptr;
    if (step.kind != Kind::kNode || node != nullptr)
      plan->steps.push_back({step.kind, step.lane, step.token, node});
  }
  return true;
}

}  // namespace vrank::gpu
