// Launches of CUDA graphs in a trace: their nodes on lanes, with the edges between
// them, as the virtual GPU writes them (virtual_gpu/core/process_graphs.h): an op that
// takes a place in the launch queue, then the nodes, which take none.
//
// Thread rule: one builder. No errors; what a node did that the trace lacks is a loss.

#ifndef VRANK_GRAPH_BUILD_GRAPH_LAUNCHES_H_
#define VRANK_GRAPH_BUILD_GRAPH_LAUNCHES_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/guest/node_layout.h"
#include "graph/build/loss_counts.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_events.h"
#include "graph/build/traced_streams.h"
#include "graph/build/work_ops.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class GraphLaunches {
 public:
  // All outlive it.
  GraphLaunches(const RankTrace& trace, const TraceIndex& index, Program& program,
                StreamLanes& lanes, TracedStreams& streams, TracedEvents& events,
                WorkOps& work, LossCounts& losses)
      : trace_(trace),
        index_(index),
        program_(program),
        lanes_(lanes),
        streams_(streams),
        events_(events),
        work_(work),
        losses_(losses) {}

  // The call's launch of a graph whose nodes the trace names; nullptr: it is none.
  // `captured`: the call's thread captures.
  const TracedGraphLaunch* Known(uint32_t call, bool captured) const;
  void Launch(uint32_t call, const TracedGraphLaunch& launch);
  // The call destroys executable graphs.
  void End(uint32_t call);

 private:
  // An executable graph that has been launched.
  struct Launched {
    std::vector<uint32_t> nodes;  // of the trace's, by the layout's number
    NodeLayout layout;
    std::vector<StreamLanes::Stream*> lanes;  // by the layout's lane; the first: none
    std::vector<uint32_t> tokens;             // by the layout's token
    uint64_t last_stream = 0;                 // id of the latest launch's; 0: none
  };

  static void LayOut(std::span<const TracedGraphNode> nodes, Launched* graph);
  Launched& TakeLanes(const TracedGraphLaunch& launch);
  void FindWork(uint32_t call);
  void Node(const TracedGraphNode& node, StreamLanes::Stream* lane);
  void CountMissing(GraphNodeKind kind);

  const RankTrace& trace_;
  const TraceIndex& index_;
  Program& program_;
  StreamLanes& lanes_;
  TracedStreams& streams_;
  TracedEvents& events_;
  WorkOps& work_;
  LossCounts& losses_;
  std::map<uint32_t, Launched> graphs_;                   // by number
  std::vector<std::pair<uint64_t, uint32_t>> node_work_;  // of a launch: node, row
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_GRAPH_LAUNCHES_H_
