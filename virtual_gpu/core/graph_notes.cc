#include "virtual_gpu/core/graph_notes.h"

namespace vrank::gpu {

ActivityGraph GraphNotes::EventOf(What what, const GraphNode& node) {
  ActivityGraph event;
  event.what = what;
  event.node = node.handle;
  event.node_id = node.id;
  event.node_type = static_cast<int>(node.type());
  return event;
}

void GraphNotes::Node(What what, GraphNode* node, GraphExec* exec,
                      const GraphNode* original) {
  if (!recorder_.listening()) [[likely]]
    return;
  table_.HandleOf(node);
  ActivityGraph event = EventOf(what, *node);
  event.original_node = original == nullptr ? nullptr : original->handle;
  if (exec != nullptr) {
    event.exec = exec->handle;
    event.exec_id = exec->id;
  }
  recorder_.TellGraphNow(event);
}

void GraphNotes::Edge(What what, GraphNode* from, GraphNode* to) {
  if (!recorder_.listening()) [[likely]]
    return;
  table_.HandleOf(from);
  ActivityGraph event = EventOf(what, *from);
  event.dependency = table_.HandleOf(to);
  recorder_.TellGraphNow(event);
}

void GraphNotes::Made(GraphNode* node) {
  if (!recorder_.listening()) [[likely]]
    return;
  Node(What::kNodeCreated, node);
  for (const GraphLink& link : node->before)
    Edge(What::kEdgeCreated, link.node, node);
}

// A clone has its nodes in the order of the original.
void GraphNotes::Cloned(const Graph& from, const Graph& clone) {
  if (!recorder_.listening()) [[likely]]
    return;
  for (size_t i = 0; i < from.nodes().size(); ++i) {
    table_.HandleOf(from.nodes()[i].get());
    Node(What::kNodeCloned, clone.nodes()[i].get(), nullptr, from.nodes()[i].get());
  }
}

void GraphNotes::Exec(What what, const GraphExec& exec) {
  if (!recorder_.listening()) [[likely]]
    return;
  ActivityGraph event;
  event.what = what;
  event.exec = exec.handle;
  event.exec_id = exec.id;
  recorder_.TellGraphNow(event);
}

void GraphNotes::Instantiated(const Graph& from, GraphExec* exec) {
  if (!recorder_.listening()) [[likely]]
    return;
  Exec(What::kExecStarting, *exec);
  // It is a clone, too.
  for (size_t i = 0; i < from.nodes().size(); ++i) {
    table_.HandleOf(from.nodes()[i].get());
    Node(What::kNodeCloned, exec->graph->nodes()[i].get(), exec, from.nodes()[i].get());
  }
  Exec(What::kExecCreated, *exec);
}

}  // namespace vrank::gpu
