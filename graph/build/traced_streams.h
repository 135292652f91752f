// The streams of a trace: which lane each one is, as streams come and go.
//
// Thread rule: one builder. Streams are numbered as CUPTI does. No errors; a stream of
// unknown kind is a loss.

#ifndef VRANK_GRAPH_BUILD_TRACED_STREAMS_H_
#define VRANK_GRAPH_BUILD_TRACED_STREAMS_H_

#include <cstdint>

#include "graph/build/loss_counts.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class TracedStreams {
 public:
  using Stream = StreamLanes::Stream;

  // All outlive it.
  TracedStreams(const RankTrace& trace, const TraceIndex& index, StreamLanes& lanes,
                LossCounts& losses)
      : trace_(trace), index_(index), lanes_(lanes), losses_(losses) {}

  // Made where it is not known yet.
  Stream* Find(uint32_t context, uint32_t stream);
  Stream* StreamOf(const TracedWork& row) { return Find(row.context, row.stream); }
  // Of rows that name a stream without its context.
  uint32_t DefaultContext() const;

  // Default streams, which exist before any call.
  void CreateFirst();
  // What the call makes, and destroys.
  void Create(uint32_t call);
  void Destroy(uint32_t call);

 private:
  const RankTrace& trace_;
  const TraceIndex& index_;
  StreamLanes& lanes_;
  LossCounts& losses_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRACED_STREAMS_H_
