// One translation from trace to program, item by item of the host's timeline;
// see program_builder.h.
//
// What one call means is in the parts: its streams, events, work, waits and
// memory. Here is their order within a call, which is that of the virtual GPU.
//
// Thread rule: one builder. No errors; what the trace lacks is a loss.

#ifndef VRANK_GRAPH_BUILD_TRANSLATION_H_
#define VRANK_GRAPH_BUILD_TRANSLATION_H_

#include <cstdint>
#include <memory>
#include <set>

#include "graph/build/graph_launches.h"
#include "graph/build/host_timeline.h"
#include "graph/build/host_wait_ops.h"
#include "graph/build/loss_counts.h"
#include "graph/build/memory_changes.h"
#include "graph/build/program_builder.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_events.h"
#include "graph/build/traced_streams.h"
#include "graph/build/work_ops.h"
#include "graph/file/kernel_table.h"

namespace vrank::graph {

class Translation {
 public:
  // `kernel_times` may be nullptr; see BuildProgram.
  Translation(const RankTrace& trace, const KernelTable* kernel_times);
  BuiltProgram Run();

 private:
  void CountTraceLosses();
  void Item(const HostItem& item);
  void Range(const TracedRange& range);
  void NcclCall(uint32_t index);
  void Call(uint32_t index);
  void CallInsideNccl(uint32_t index);
  // The call's thread captures a stream, from here on or still.
  bool Captures(const TracedCall& call);
  void CountWhatIsMissing(uint32_t index, bool captured);
  int64_t EndOfHost() const;

  const RankTrace& trace_;
  const TraceIndex index_;
  std::unique_ptr<Program> program_;
  LossCounts losses_;
  HostTimeline timeline_;
  StreamLanes lanes_;
  TracedStreams streams_;
  TracedEvents events_;
  MemoryChanges memory_;
  WorkOps work_;
  GraphLaunches graphs_;
  HostWaitOps waits_;
  std::set<uint32_t> capturing_;  // threads
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRANSLATION_H_
