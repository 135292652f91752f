// The rows of a trace joined to the calls that caused them, and the host's timeline.
//
// Thread rule: immutable after construction; the trace outlives it.

#ifndef VRANK_GRAPH_BUILD_TRACE_INDEX_H_
#define VRANK_GRAPH_BUILD_TRACE_INDEX_H_

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Rows of one kind, by call.
class RowsByCall {
 public:
  struct Row {
    uint32_t call, row;
  };
  void Add(uint32_t call, size_t row) {
    rows_.push_back({call, static_cast<uint32_t>(row)});
  }
  void Sort();
  // In the order of the trace. REQUIRES: sorted since the last Add.
  std::span<const Row> Of(uint32_t call) const;

 private:
  std::vector<Row> rows_;
  std::vector<uint32_t> first_;  // by call, and behind the last one: in rows_
};

// What happens on the host, in its order.
struct HostItem {
  // At one moment, what is at an end or a point comes before what begins. A call that
  // takes no time is a launch whose cost lies before it, so all else at that moment
  // comes after it. Memory is there once what it took (a context) has been made, so it
  // comes before a range that begins then.
  enum class Kind : uint8_t { kInstantCall, kReserve, kRange, kNccl, kCall };
  int64_t time_ns = 0;
  Kind kind = Kind::kCall;
  uint32_t index = 0;  // in the trace's table
};

// An event object, as CUPTI numbers it: context and id.
using EventKey = std::pair<uint32_t, uint32_t>;

class TraceIndex {
 public:
  explicit TraceIndex(const RankTrace& trace);

  RowsByCall work, syncs, event_records, streams, memory, reserves, operations,
      queue_full, graph_launches, graph_changes;
  // Reserves by NCCL host call, where they belong to one.
  RowsByCall nccl_reserves;
  std::vector<HostItem> timeline;

  // The thread issues work; calls of other threads are no part of the program.
  bool Issues(uint32_t thread) const { return issues_[thread]; }
  // NCCL made this call on its own behalf.
  bool IsInsideNccl(uint32_t call) const { return inside_nccl_[call]; }
  // The nodes of an executable graph, by their index; empty where the trace does not
  // name them.
  std::span<const TracedGraphNode> NodesOf(uint32_t graph) const;
  // The operation that was captured with that number; nullptr: none.
  const TracedOperation* Captured(uint64_t number) const;
  // The last call that uses the event.
  uint32_t LastUse(EventKey event) const;
  // Recordings carry numbers that waits refer to (CUDA 13).
  bool has_sync_ids() const { return has_sync_ids_; }

  // Rows that no call claims.
  uint64_t work_without_call = 0, operations_without_call = 0;
  uint64_t recordings_without_call = 0, waits_without_call = 0;
  uint64_t memory_without_call = 0, queue_waits_without_call = 0;
  uint64_t graph_launches_without_call = 0;
  uint64_t concurrent_calls = 0, calls_inside_nccl = 0;

 private:
  static constexpr uint32_t kNoCall = ~0u;

  void JoinCalls();
  void JoinRows();
  void JoinReserves();
  void JoinGraphs();
  void FindIssuers();
  void FindCallsInsideNccl();
  void FindLastUses();
  void MakeTimeline();
  uint32_t CallOf(uint32_t correlation) const;
  template <typename T>
  void Join(const std::vector<T>& rows, RowsByCall* by_call, uint64_t* lost);

  const RankTrace& trace_;
  std::vector<std::pair<uint32_t, uint32_t>> by_correlation_;  // correlation, call
  std::vector<bool> nested_;       // calls inside another one, which has their rows
  std::vector<bool> issues_;       // by thread
  std::vector<bool> inside_nccl_;  // by call
  std::map<EventKey, uint32_t> last_uses_;
  std::map<uint32_t, std::span<const TracedGraphNode>> graph_nodes_;
  std::map<uint64_t, const TracedOperation*> captured_;
  bool has_sync_ids_ = false;
};

// Every number in the trace that refers to another table is in its range, and graphs
// are in order and without cycles.
absl::Status CheckTrace(const RankTrace& trace);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_TRACE_INDEX_H_
