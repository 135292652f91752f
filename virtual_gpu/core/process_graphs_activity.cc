// What graphs tell a profiler at once (ActivityGraph): nodes and edges as they come and
// go, executable graphs, and what is changed in them.
//
// Nodes of child graphs are not told.

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {

using What = ActivityGraph::What;

void ProcessGraphs::TellNode(What what, GraphNode* node, GraphExec* exec,
                             const GraphNode* original) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  ActivityGraph event;
  event.what = what;
  event.node = HandleOf(node);
  event.node_id = node->id;
  event.node_type = static_cast<int>(node->type());
  event.original_node = original == nullptr ? nullptr : original->handle;
  if (exec != nullptr) {
    event.exec = exec->handle;
    event.exec_id = exec->id;
  }
  gpu_.activity_.TellGraphNow(event);
}

void ProcessGraphs::TellEdge(What what, GraphNode* from, GraphNode* to) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  ActivityGraph event;
  event.what = what;
  event.node = HandleOf(from);
  event.node_id = from->id;
  event.node_type = static_cast<int>(from->type());
  event.dependency = HandleOf(to);
  gpu_.activity_.TellGraphNow(event);
}

void ProcessGraphs::TellMade(GraphNode* node) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  TellNode(What::kNodeCreated, node);
  for (const GraphLink& link : node->before)
    TellEdge(What::kEdgeCreated, link.node, node);
}

// A clone has its nodes in the order of the original.
void ProcessGraphs::TellCloned(const Graph& from, const Graph& clone) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  for (size_t i = 0; i < from.nodes().size(); ++i) {
    HandleOf(from.nodes()[i].get());
    TellNode(What::kNodeCloned, clone.nodes()[i].get(), nullptr, from.nodes()[i].get());
  }
}

void ProcessGraphs::TellExec(What what, const GraphExec& exec) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  ActivityGraph event;
  event.what = what;
  event.exec = exec.handle;
  event.exec_id = exec.id;
  gpu_.activity_.TellGraphNow(event);
}

void ProcessGraphs::TellInstantiated(const Graph& from, GraphExec* exec) {
  if (!gpu_.activity_.listening()) [[likely]]
    return;
  TellExec(What::kExecStarting, *exec);
  // It is a clone, too.
  for (size_t i = 0; i < from.nodes().size(); ++i) {
    HandleOf(from.nodes()[i].get());
    TellNode(What::kNodeCloned, exec->graph->nodes()[i].get(), exec,
             from.nodes()[i].get());
  }
  TellExec(What::kExecCreated, *exec);
}

}  // namespace vrank::gpu
