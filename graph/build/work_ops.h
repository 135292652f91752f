// Kernels, copies and operations of communicators in a trace, as ops on lanes.
//
// Thread rule: one builder. Times: nanoseconds of the trace's clock. No errors; work
// that cannot be joined is a loss.

#ifndef VRANK_GRAPH_BUILD_WORK_OPS_H_
#define VRANK_GRAPH_BUILD_WORK_OPS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/build/host_timeline.h"
#include "graph/build/loss_counts.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/build/traced_streams.h"
#include "graph/file/kernel_table.h"
#include "graph/program/program.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

class WorkOps {
 public:
  // `kernel_times` may be nullptr; see BuildProgram. All outlive it. Adds the names of
  // work to the program.
  WorkOps(const RankTrace& trace, const TraceIndex& index,
          const KernelTable* kernel_times, Program& program, StreamLanes& lanes,
          TracedStreams& streams, HostTimeline& timeline, LossCounts& losses);

  // All that the call launches.
  void OfCall(uint32_t call);
  // Work on that stream, whose end it moves.
  Op OpOf(const TracedWork& row, StreamLanes::Stream* stream, bool is_launch);
  // `kernel`: nullptr where the trace has none.
  void Operation(const TracedOperation& row, StreamLanes::Stream* stream,
                 const TracedWork* kernel, bool is_launch);
  // The host stood at a full launch queue before the call's launch, the last op.
  void SetQueueWait(uint32_t call);

  // The program's number of a name of the trace.
  uint32_t NameOf(uint32_t name) const { return names_[name]; }

 private:
  void OneWork(const TracedWork& row, uint32_t call, bool is_launch);
  void Operations(uint32_t call);
  uint32_t NameOf(const TracedWork& row) const;
  void SetSource(uint32_t name, Op* op) const;
  std::optional<int64_t> RecordedTime(const TracedWork& row) const;

  const RankTrace& trace_;
  const TraceIndex& index_;
  const KernelTable* const kernel_times_;
  Program& program_;
  StreamLanes& lanes_;
  TracedStreams& streams_;
  HostTimeline& timeline_;
  LossCounts& losses_;
  const std::vector<int64_t> device_gaps_;  // by row of trace_.work
  const uint32_t copy_name_, memset_name_;
  std::vector<uint32_t> names_;  // the program's, by the trace's
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_WORK_OPS_H_
