// How much device memory a traced rank holds: allocations, pools, and what the context
// and communicators reserve.
//
// Thread rule: one builder. Bytes; times: nanoseconds of the trace's clock. No errors.

#ifndef VRANK_GRAPH_BUILD_MEMORY_CHANGES_H_
#define VRANK_GRAPH_BUILD_MEMORY_CHANGES_H_

#include <cstdint>
#include <map>
#include <span>

#include "graph/build/block_account.h"
#include "graph/build/host_timeline.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_streams.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class MemoryChanges {
 public:
  // Reserves that belong to a call or an NCCL host call.
  using Rows = std::span<const RowsByCall::Row>;

  // All outlive it.
  MemoryChanges(const RankTrace& trace, const TraceIndex& index, StreamLanes& lanes,
                TracedStreams& streams, HostTimeline& timeline)
      : trace_(trace),
        index_(index),
        lanes_(lanes),
        streams_(streams),
        timeline_(timeline) {}

  // What the call allocates and frees.
  void OfCall(uint32_t call);
  // ... where NCCL makes the call.
  void OfCallInsideNccl(uint32_t call);
  // What streams take from pools may be what other streams have freed: edges.
  void OrderPools(uint32_t call);

  void Reserve(const TracedReserve& row) {
    Change(row.delta_bytes, row.owner, row.time_ns);
  }
  // A context takes its memory before what its call does, and gives it back after that;
  // all else is taken and given back in between.
  void TakeContext(Rows rows);
  void GiveBackContext(Rows rows);
  void ChangeContext(Rows rows);  // both
  void ReserveOthers(Rows rows);

 private:
  template <class Which>
  void ReserveWhere(Rows rows, Which which);
  void Change(int64_t delta, MemoryOwner owner, int64_t time_ns);

  const RankTrace& trace_;
  const TraceIndex& index_;
  StreamLanes& lanes_;
  TracedStreams& streams_;
  HostTimeline& timeline_;
  BlockAccount blocks_;
  std::map<uint64_t, uint64_t> pool_memory_;  // bytes from pools, by address
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_MEMORY_CHANGES_H_
