// What a trace says of CUDA graphs: which nodes an executable graph has, what they wait
// for, which of NCCL's operations they are, and which graph a call launches.
//
// Activity records name the node that a kernel belongs to (graphNodeId) and nothing
// more. The rest comes from CUPTI's resource callbacks: nodes and edges as the program
// or a capture makes them, and the copies of the nodes when a graph is made executable;
// those are the nodes that kernels name. An operation of NCCL is a node's where the
// node is made while NCCL is captured (NcclTrace).
//
// A graph with a child graph, or whose nodes were made before the trace began, is not
// written: its nodes are not known here.
//
// Thread rule: any thread.

#ifndef VRANK_TRACER_CUPTI_GRAPH_WATCH_H_
#define VRANK_TRACER_CUPTI_GRAPH_WATCH_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tracer/cupti/cupti_library.h"
#include "tracer/record/trace_writer.h"

namespace vrank::tracer {

class GraphWatch {
 public:
  GraphWatch(const CuptiLibrary* cupti, TraceWriter* writer)
      : cupti_(*cupti), writer_(*writer) {}

  // The resource callbacks that OnGraph wants.
  static const std::vector<CUpti_CallbackId>& Callbacks();
  // False where this CUPTI does not number graphs.
  bool possible() const {
    return cupti_.cuptiGetGraphNodeId != nullptr &&
           cupti_.cuptiGetGraphExecId != nullptr;
  }

  // Nodes that the calling thread makes are the operation's; 0: nobody's.
  static void SetOperation(uint64_t id);
  // `call`: the correlation id of the call that the thread is in; 0: unknown.
  void OnGraph(CUpti_CallbackId cbid, const CUpti_GraphData& data, uint32_t call);
  // A launch begins. `per_thread`: its null stream is the thread's own.
  void OnLaunch(const CUpti_CallbackData& call, bool per_thread);

 private:
  struct Node {
    uint32_t type = 0;
    std::vector<uint64_t> before, operations;
  };

  uint64_t IdOf(CUgraphNode node) const;
  // REQUIRES: mutex_ held.
  void OnClone(uint64_t copy, uint64_t original);
  void OnEdge(const CUpti_GraphData& data, bool created);
  void OnExecCreated(const CUpti_GraphData& data);
  void OnExecEnds(const CUpti_GraphData& data, uint32_t call);
  void OnExecChanges(const CUpti_GraphData& data, uint32_t call);
  void AppendChange(uint32_t exec, uint16_t flags, uint32_t call);

  const CuptiLibrary& cupti_;
  TraceWriter& writer_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> exec_of_;              // by copied node
  std::unordered_map<uint32_t, std::vector<uint64_t>> copies_;  // by executable graph
};

}  // namespace vrank::tracer

#endif  // VRANK_TRACER_CUPTI_GRAPH_WATCH_H_
