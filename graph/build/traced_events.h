// The events of a trace: which token each one is, from its first recording to its last
// use.
//
// Thread rule: one builder. Events are numbered as CUPTI does. No errors; a wait for a
// recording that the trace lacks is a loss.

#ifndef VRANK_GRAPH_BUILD_TRACED_EVENTS_H_
#define VRANK_GRAPH_BUILD_TRACED_EVENTS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "graph/build/loss_counts.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_streams.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class TracedEvents {
 public:
  // All outlive it.
  TracedEvents(const RankTrace& trace, const TraceIndex& index, StreamLanes& lanes,
               TracedStreams& streams, LossCounts& losses)
      : trace_(trace),
        index_(index),
        lanes_(lanes),
        streams_(streams),
        losses_(losses) {}

  void Record(StreamLanes::Stream* stream, const TracedEventRecord& row);
  // All that the call records, each in its own stream.
  void RecordAll(uint32_t call);
  // The token that a wait is for; nullopt where there is nothing to wait for.
  std::optional<uint32_t> TokenFor(const TracedSync& row);
  // The waits of streams that the call makes.
  void StreamWaits(uint32_t call);
  // The call was the last use of some.
  void Release(uint32_t call);

 private:
  struct Event {
    uint32_t token = 0;
    uint64_t sync_id = 0;  // of its last recording
  };

  void ReleaseIfLast(const EventKey& key, uint32_t call);

  const RankTrace& trace_;
  const TraceIndex& index_;
  StreamLanes& lanes_;
  TracedStreams& streams_;
  LossCounts& losses_;
  std::map<EventKey, Event> events_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRACED_EVENTS_H_
