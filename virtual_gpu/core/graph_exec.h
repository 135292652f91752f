// An executable graph: a copy of a graph, its layout on lanes, and what launches need.
//
// Its lanes and tokens are its own: CUDA runs one launch of an executable graph at a
// time, so that the next one may use them again.
//
// Thread rule: plain values; the GPU's lock guards them.

#ifndef VRANK_VIRTUAL_GPU_CORE_GRAPH_EXEC_H_
#define VRANK_VIRTUAL_GPU_CORE_GRAPH_EXEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "virtual_gpu/core/graph.h"
#include "virtual_gpu/core/graph_plan.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

struct GraphExec {
  std::unique_ptr<Graph> graph;  // GraphNode::original: of the graph it was made from
  void* handle = nullptr;
  uint32_t id = 0;  // of all of the process, for profilers
  uint64_t flags = 0;
  GraphPlan plan;

  // By which the emulator knows the body; 0: it does not, or not any more.
  uint32_t number = 0;
  // The records of a launch hold nothing that is new each time.
  bool repeatable = true;
  // Nodes leave work to the host (host functions, copies to the host).
  bool has_obligations = false;

  int device = -1;                    // whose lanes these are
  std::vector<Stream*> lanes;         // by lane of the plan; the first one is not used
  std::vector<Token> tokens;          // by token of the plan
  std::vector<ObligationSet> covers;  // by token: what comes before it on the host
  uint64_t last_stream = 0;  // id of the stream of the latest launch; 0: none yet
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_GRAPH_EXEC_H_
