// The state of one translation from trace to program; see program_builder.h.
//
// Thread rule: one builder.

#ifndef VRANK_GRAPH_BUILD_TRANSLATION_H_
#define VRANK_GRAPH_BUILD_TRANSLATION_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/guest/node_layout.h"
#include "graph/build/block_account.h"
#include "graph/build/device_gaps.h"
#include "graph/build/program_builder.h"
#include "graph/build/stream_lanes.h"
#include "graph/build/trace_index.h"
#include "graph/file/kernel_table.h"

namespace vrank::graph {

class Translation {
 public:
  // `kernel_times` may be nullptr; see BuildProgram.
  Translation(const RankTrace& trace, const KernelTable* kernel_times);
  BuiltProgram Run();

 private:
  using Rows = std::span<const RowsByCall::Row>;
  static constexpr int64_t kUntimed = std::numeric_limits<int64_t>::min();

  // An op of the item at hand, before its host time is known.
  struct Pending {
    Op op;
    int64_t at = kUntimed;     // when the host got to it, where the trace says so
    int64_t until = kUntimed;  // when the host went on, if later
    Source host_source;
  };
  struct Event {
    uint32_t token = 0;
    uint64_t sync_id = 0;  // of its last recording
  };

  // An executable CUDA graph that has been launched.
  struct LaunchedGraph {
    std::vector<uint32_t> nodes;  // of the trace's, by the layout's number
    NodeLayout layout;
    std::vector<StreamLanes::Stream*> lanes;  // by the layout's lane; the first: none
    std::vector<uint32_t> tokens;             // by the layout's token
    uint64_t last_stream = 0;                 // id of the latest launch's; 0: none
  };

  // --- translation.cc: the host's timeline
  void Count(BuildLoss loss, uint64_t amount = 1) {
    if (amount != 0)
      losses_[loss] += amount;
  }
  // Gives the pending ops their host times; untimed ones before a timed one count up to
  // that, the others up to `end_ns`.
  void Flush(int64_t end_ns);
  int64_t EndOfHost() const;
  void Range(const TracedRange& range);
  void NcclCall(uint32_t index);
  void Reserve(const TracedReserve& row);
  void MemoryChange(int64_t delta, MemoryOwner owner, int64_t time_ns);
  Source HostSource() const {
    return trace_.session.virtual_gpu ? Source::kAssumed : Source::kRecorded;
  }

  // --- translation_calls.cc: one call
  void Call(uint32_t index);
  void CallInsideNccl(uint32_t index);
  void CountWhatIsMissing(uint32_t index);
  StreamLanes::Stream* FindStream(uint32_t context, uint32_t stream);
  void MakeStreams(Rows rows);
  void DestroyStreams(Rows rows);
  void TakePoolMemory(uint32_t index);
  void StreamWait(const TracedSync& row);
  void Work(uint32_t index);
  void OneWork(const TracedWork& row, uint32_t call, bool is_launch);
  // Of work on that stream, whose end it moves.
  std::optional<int64_t> RecordedTime(const TracedWork& row) const;
  Op WorkOp(const TracedWork& row, StreamLanes::Stream* stream, bool is_launch);
  void Operations(uint32_t index);
  // `kernel`: nullptr where the trace has none.
  void OneOperation(const TracedOperation& row, StreamLanes::Stream* stream,
                    const TracedWork* kernel, bool is_launch);
  void RecordEventIn(StreamLanes::Stream* stream, const TracedEventRecord& row);
  void SetQueueWait(uint32_t call);
  // Of rows that name a stream without its context.
  uint32_t DefaultContext() const;

  // --- translation_graphs.cc: launches of CUDA graphs
  // The call's launch of a graph whose nodes the trace names; nullptr: it is none.
  const TracedGraphLaunch* KnownLaunch(uint32_t call) const;
  LaunchedGraph& TakeLanes(const TracedGraphLaunch& launch);
  void GraphLaunch(uint32_t index, const TracedGraphLaunch& launch);
  void Node(const TracedGraphNode& node, StreamLanes::Stream* lane);
  // Executable graphs that the call destroys.
  void EndGraphs(uint32_t index);

  // --- translation_waits.cc: waits of the host, questions, memory
  void HostWaits(uint32_t index);
  // Appends the waits of one row; the host stood from `start` on.
  void HostWaitOf(const TracedSync& row, const TracedCall& call);
  void SetWaitTimes(size_t first, int64_t start_ns, int64_t end_ns, int64_t target_ns);
  void Query(const TracedSync& row, const TracedCall& call);
  void BlockingCopy(uint32_t index);
  void Memory(uint32_t index);
  // The recording that a wait is for; nullptr where there is nothing to wait for.
  const Event* Recording(const TracedSync& row);
  void ReleaseEvents(uint32_t index);

  const std::string& FunctionOf(const TracedCall& call) const {
    return trace_.names[call.function];
  }
  int64_t OwnCopyCost(const TracedCall& call);

  const RankTrace& trace_;
  const KernelTable* const kernel_times_;
  TraceIndex index_;
  const std::vector<int64_t> device_gaps_;  // by row of trace_.work
  std::unique_ptr<Program> program_;
  StreamLanes lanes_;
  BlockAccount blocks_;
  std::map<BuildLoss, uint64_t> losses_;
  std::vector<Pending> pending_;
  int64_t cursor_ = 0;
  int64_t last_ns_ = 0;  // the latest moment of the host's timeline
  std::map<EventKey, Event> events_;
  std::map<uint32_t, LaunchedGraph> graphs_;              // by number
  std::vector<std::pair<uint64_t, uint32_t>> node_work_;  // of a launch: node, row
  std::set<uint32_t> capturing_;                          // threads
  std::map<uint64_t, uint64_t> async_memory_;  // bytes from pools, by address
  std::map<uint32_t, int64_t> copy_costs_;     // by function
  std::vector<uint32_t> names_;                // the program's, by the trace's
  uint32_t copy_name_, memset_name_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRANSLATION_H_
