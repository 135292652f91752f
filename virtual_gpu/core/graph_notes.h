// What graphs tell a profiler at once (ActivityGraph): nodes and edges as they come and
// go, executable graphs, and what is changed in them. Nothing while none listens.
//
// Nodes of child graphs are left out.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_NOTES_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_NOTES_H_

#include "virtual_gpu/core/activity.h"
#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_exec.h"
#include "virtual_gpu/core/graph_table.h"

namespace vrank::gpu {

class GraphNotes {
 public:
  using What = ActivityGraph::What;

  GraphNotes(ActivityRecorder& recorder, GraphTable& table)
      : recorder_(recorder), table_(table) {}

  void Node(What what, GraphNode* node, GraphExec* exec = nullptr,
            const GraphNode* original = nullptr);
  void Edge(What what, GraphNode* from, GraphNode* to);
  // A node that has been made, with its edges.
  void Made(GraphNode* node);
  void Exec(What what, const GraphExec& exec);
  void Cloned(const Graph& from, const Graph& clone);
  void Instantiated(const Graph& from, GraphExec* exec);

  // REQUIRES: the node has its handle.
  static ActivityGraph EventOf(What what, const GraphNode& node);

 private:
  ActivityRecorder& recorder_;
  GraphTable& table_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_NOTES_H_
