// Waits and queries of a traced host, and copies that blocked it.
//
// Thread rule: one builder. Times: nanoseconds of the trace's clock. No errors.

#ifndef VRANK_GRAPH_BUILD_HOST_WAIT_OPS_H_
#define VRANK_GRAPH_BUILD_HOST_WAIT_OPS_H_

#include <cstdint>
#include <map>
#include <string>

#include "graph/build/host_timeline.h"
#include "graph/build/loss_counts.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_events.h"
#include "graph/build/traced_streams.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class HostWaitOps {
 public:
  // All outlive it.
  HostWaitOps(const RankTrace& trace, const TraceIndex& index, StreamLanes& lanes,
              TracedStreams& streams, TracedEvents& events, HostTimeline& timeline,
              LossCounts& losses);

  // All that the call waits for or asks.
  void OfCall(uint32_t call);

 private:
  // Appends the waits of one row; the host stood from its start on.
  void Wait(const TracedSync& row, const TracedCall& call);
  void Query(const TracedSync& row, const TracedCall& call);
  void BlockingCopies(uint32_t call);
  // Host time of a call of that function by itself, from its asynchronous copies.
  int64_t OwnCopyCost(const TracedCall& call);
  const std::string& FunctionOf(const TracedCall& call) const {
    return trace_.names[call.function];
  }

  const RankTrace& trace_;
  const TraceIndex& index_;
  StreamLanes& lanes_;
  TracedStreams& streams_;
  TracedEvents& events_;
  HostTimeline& timeline_;
  LossCounts& losses_;
  std::map<uint32_t, int64_t> copy_costs_;  // by function
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_HOST_WAIT_OPS_H_
