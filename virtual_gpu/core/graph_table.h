// Graphs and nodes by the handles that the program holds.
//
// Owns the program's graphs; a child graph belongs to its node, one of an executable
// graph to that. Nodes and child graphs get handles when the program first sees them.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_TABLE_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_TABLE_H_

#include <memory>

#include "virtual_gpu/core/activity_recorder.h"
#include "virtual_gpu/core/capture.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/events.h"
#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_allocations.h"
#include "virtual_gpu/core/graphs.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/user_objects.h"

namespace vrank::gpu {

class GraphTable {
 public:
  GraphTable(Captures& captures, Events& events, GraphAllocations& allocations,
             UserObjects& user_objects, ActivityRecorder& recorder)
      : captures_(captures),
        events_(events),
        allocations_(allocations),
        user_objects_(user_objects),
        recorder_(recorder) {}

  // nullptr where the handle is none.
  Graph* FindGraph(void* handle) const;
  GraphNode* FindNode(const void* handle) const;
  void* HandleOf(GraphNode* node);
  void* HandleOf(Graph* graph);

  // A graph of the program's.
  Graph* Add(std::unique_ptr<Graph> graph);
  // Destroys it with all that it holds.
  void Drop(void* handle);
  // The node is about to be removed from its graph: its handle, and those of a child
  // graph, are no more.
  void Disown(GraphNode* node);
  // Of an executable graph that goes.
  void RemoveHandles(const Graph& graph);

  // Whether all of them are nodes of this graph, and their edges are modelled.
  Error CheckDependencies(const Graph* graph, Graphs::Dependencies after) const;
  static bool IsWholeEdge(const GraphEdgeData& data) { return data == GraphEdgeData(); }

 private:
  struct NodeRef {
    GraphNode* node;
  };
  // `owned`: of the program.
  struct OwnedGraph {
    std::unique_ptr<Graph> owned;
    Graph* graph;
  };
  void Disown(Graph* graph);

  Captures& captures_;
  Events& events_;
  GraphAllocations& allocations_;
  UserObjects& user_objects_;
  ActivityRecorder& recorder_;
  HandleTable<OwnedGraph, 0x60> graphs_;
  HandleTable<NodeRef, 0x61> nodes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_TABLE_H_
