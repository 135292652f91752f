#include "virtual_gpu/core/graph_table.h"

#include <utility>
#include <variant>

#include "virtual_gpu/core/graph_notes.h"

namespace vrank::gpu {

Graph* GraphTable::FindGraph(void* handle) const {
  const OwnedGraph* const found = graphs_.Find(handle);
  return found == nullptr ? nullptr : found->graph;
}

GraphNode* GraphTable::FindNode(const void* handle) const {
  const NodeRef* const found = nodes_.Find(handle);
  return found == nullptr ? nullptr : found->node;
}

void* GraphTable::HandleOf(GraphNode* node) {
  if (node->handle == nullptr)
    node->handle = nodes_.Add(std::make_unique<NodeRef>(NodeRef{node}));
  return node->handle;
}

void* GraphTable::HandleOf(Graph* graph) {
  if (graph->handle == nullptr)
    graph->handle = graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{{}, graph}));
  return graph->handle;
}

void GraphTable::Disown(GraphNode* node) {
  if (node->handle != nullptr && recorder_.listening()) [[unlikely]]
    recorder_.TellGraphNow(
        GraphNotes::EventOf(ActivityGraph::What::kNodeDestroyed, *node));
  captures_.Forget(node);
  events_.Forget(node);
  nodes_.Remove(node->handle);
  if (auto* child = std::get_if<ChildContent>(&node->content))
    Disown(child->graph.get());
}

void GraphTable::Disown(Graph* graph) {
  for (const auto& node : graph->nodes())
    Disown(node.get());
  allocations_.Count(*graph, -1);
  user_objects_.Release(graph->user_objects);
  if (graph->owner != nullptr)
    graphs_.Remove(graph->handle);
}

void GraphTable::Drop(void* handle) {
  const std::unique_ptr<OwnedGraph> gone = graphs_.Remove(handle);
  Disown(gone->graph);
}

Graph* GraphTable::Add(std::unique_ptr<Graph> graph) {
  Graph* const raw = graph.get();
  raw->handle =
      graphs_.Add(std::make_unique<OwnedGraph>(OwnedGraph{std::move(graph), raw}));
  return raw;
}

void GraphTable::RemoveHandles(const Graph& graph) {
  for (const auto& node : graph.nodes())
    nodes_.Remove(node->handle);
}

Error GraphTable::CheckDependencies(const Graph* graph,
                                    Graphs::Dependencies after) const {
  for (const GraphDependency& dependency : after) {
    const GraphNode* const node = FindNode(dependency.node);
    if (node == nullptr || node->graph != graph)
      return Error::kInvalidValue;
    if (!IsWholeEdge(dependency.data))
      return Error::kNotSupported;
  }
  return Error::kSuccess;
}

}  // namespace vrank::gpu
