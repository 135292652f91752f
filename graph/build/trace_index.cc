// Sorting and joining.

#include "graph/build/trace_index.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <type_traits>

#include <fmt/format.h>

#include "base/guest/node_layout.h"

namespace vrank::graph {

void RowsByCall::Sort() {
  const auto earlier = [](const Row& a, const Row& b) { return a.call < b.call; };
  if (!std::is_sorted(rows_.begin(), rows_.end(), earlier))
    std::stable_sort(rows_.begin(), rows_.end(), earlier);
  first_.assign(rows_.empty() ? 0 : rows_.back().call + 2, 0);
  for (const Row& row : rows_)
    ++first_[row.call + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

std::span<const RowsByCall::Row> RowsByCall::Of(uint32_t call) const {
  if (size_t{call} + 1 >= first_.size())
    return {};
  return std::span(rows_).subspan(first_[call], first_[call + 1] - first_[call]);
}

TraceIndex::TraceIndex(const RankTrace& trace) : trace_(trace) {
  JoinCalls();
  FindCallsInsideNccl();
  JoinRows();
  JoinReserves();
  JoinGraphs();
  FindIssuers();
  FindLastUses();
  MakeTimeline();
}

// On a real GPU a runtime call and the driver call that it makes are both recorded: the
// outer one is the program's, and work that names the inner one is its work.
void TraceIndex::JoinCalls() {
  const auto& calls = trace_.calls;
  nested_.assign(calls.size(), false);
  std::vector<uint32_t> order(calls.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return calls[a].start_ns != calls[b].start_ns
               ? calls[a].start_ns < calls[b].start_ns
               : calls[a].end_ns > calls[b].end_ns;
  });
  std::map<uint32_t, uint32_t> outer_of_thread;
  for (const uint32_t call : order) {
    uint32_t target = call;
    const auto [outer, is_first] =
        outer_of_thread.try_emplace(calls[call].thread, call);
    if (!is_first) {
      const TracedCall& around = calls[outer->second];
      // (A virtual GPU reports the outermost calls only.)
      if (!trace_.session.virtual_gpu && calls[call].is_driver && !around.is_driver &&
          calls[call].end_ns <= around.end_ns && calls[call].start_ns < around.end_ns) {
        nested_[call] = true;
        target = outer->second;
      } else {
        outer->second = call;
      }
    }
    by_correlation_.emplace_back(calls[call].correlation, target);
  }
  // Of a runtime and a driver call that share a correlation id the outer one is first.
  std::stable_sort(by_correlation_.begin(), by_correlation_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

uint32_t TraceIndex::CallOf(uint32_t correlation) const {
  // Mostly each number is there once, one after the other.
  const auto& calls = by_correlation_;
  const auto place = calls.empty() ? 0 : size_t{correlation} - calls.front().first;
  if (place < calls.size() && calls[place].first == correlation &&
      (place == 0 || calls[place - 1].first != correlation))
    return calls[place].second;
  const auto found = std::lower_bound(
      by_correlation_.begin(), by_correlation_.end(), correlation,
      [](const auto& entry, uint32_t wanted) { return entry.first < wanted; });
  return found != by_correlation_.end() && found->first == correlation ? found->second
                                                                       : kNoCall;
}

void TraceIndex::FindCallsInsideNccl() {
  inside_nccl_.assign(trace_.calls.size(), false);
  // The virtual NCCL makes no CUDA calls of its own.
  if (trace_.session.virtual_gpu || trace_.nccl_calls.empty())
    return;
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> spans;  // by thread
  for (const TracedNcclCall& call : trace_.nccl_calls)
    spans[call.thread].emplace_back(call.start_ns, call.end_ns);
  for (auto& [thread, of_thread] : spans)
    std::sort(of_thread.begin(), of_thread.end());
  for (size_t i = 0; i < trace_.calls.size(); ++i) {
    const TracedCall& call = trace_.calls[i];
    const auto of_thread = spans.find(call.thread);
    if (of_thread == spans.end() || nested_[i])
      continue;
    auto span = std::upper_bound(of_thread->second.begin(), of_thread->second.end(),
                                 std::pair(call.start_ns, call.end_ns));
    if (span == of_thread->second.begin())
      continue;
    --span;
    inside_nccl_[i] = call.start_ns > span->first && call.end_ns <= span->second;
    calls_inside_nccl += inside_nccl_[i] ? 1 : 0;
  }
}

template <typename T>
void TraceIndex::Join(const std::vector<T>& rows, RowsByCall* by_call, uint64_t* lost) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t call = CallOf(rows[i].correlation);
    if (call != kNoCall)
      by_call->Add(call, i);
    else if (!std::is_same_v<T, TracedMemory> || rows[i].correlation != 0)
      ++*lost;  // (a module's own variables come with no call: the context's memory)
  }
  by_call->Sort();
}

void TraceIndex::JoinRows() {
  Join(trace_.work, &work, &work_without_call);
  Join(trace_.syncs, &syncs, &waits_without_call);
  Join(trace_.event_records, &event_records, &recordings_without_call);
  Join(trace_.memory, &memory, &memory_without_call);
  for (size_t i = 0; i < trace_.operations.size(); ++i) {
    const TracedOperation& operation = trace_.operations[i];
    if (operation.captured != 0) {
      captured_.emplace(operation.captured, &operation);
      continue;
    }
    const uint32_t call = CallOf(operation.correlation);
    if (call == kNoCall)
      ++operations_without_call;
    else
      operations.Add(call, i);
  }
  operations.Sort();
  for (size_t i = 0; i < trace_.streams.size(); ++i) {
    // Streams that no call made (default streams) are known from the start.
    const uint32_t call = CallOf(trace_.streams[i].correlation);
    if (call != kNoCall)
      streams.Add(call, i);
  }
  streams.Sort();
  for (size_t i = 0; i < trace_.overheads.size(); ++i) {
    if (trace_.overheads[i].kind != TracedOverhead::Kind::kLaunchQueueFull)
      continue;
    const uint32_t call = CallOf(trace_.overheads[i].correlation);
    if (call == kNoCall)
      ++queue_waits_without_call;
    else
      queue_full.Add(call, i);
  }
  queue_full.Sort();
  has_sync_ids_ = std::any_of(trace_.event_records.begin(), trace_.event_records.end(),
                              [](const auto& row) { return row.event_sync_id != 0; });
}

void TraceIndex::JoinReserves() {
  std::map<uint32_t, uint32_t> creation_of, release_of;  // by communicator
  for (uint32_t i = 0; i < trace_.nccl_calls.size(); ++i) {
    const TracedNcclCall& call = trace_.nccl_calls[i];
    if (call.kind != TracedNcclCall::Kind::kRelease)
      creation_of[call.communicator] = i;
    else if (call.release != ReleaseKind::kFinalize)  // which gives nothing back
      release_of[call.communicator] = i;
  }
  for (size_t i = 0; i < trace_.reserves.size(); ++i) {
    const TracedReserve& row = trace_.reserves[i];
    const uint32_t call = row.correlation == 0 ? kNoCall : CallOf(row.correlation);
    if (call != kNoCall) {
      reserves.Add(call, i);
      continue;
    }
    const auto& owners = row.delta_bytes < 0 ? release_of : creation_of;
    if (const auto of = owners.find(row.communicator); of != owners.end()) {
      nccl_reserves.Add(of->second, i);
      continue;
    }
    // Without an owner: inside of a call of NCCL, or between calls, where it is an item
    // of the timeline.
    for (uint32_t c = 0; c < trace_.nccl_calls.size(); ++c) {
      const TracedNcclCall& candidate = trace_.nccl_calls[c];
      if (row.time_ns < candidate.start_ns || row.time_ns > candidate.end_ns)
        continue;
      nccl_reserves.Add(c, i);
      break;
    }
  }
  reserves.Sort();
  nccl_reserves.Sort();
}

void TraceIndex::JoinGraphs() {
  Join(trace_.graph_launches, &graph_launches, &graph_launches_without_call);
  for (size_t i = 0; i < trace_.graph_changes.size(); ++i)
    if (const uint32_t call = CallOf(trace_.graph_changes[i].correlation);
        call != kNoCall)
      graph_changes.Add(call, i);
  graph_changes.Sort();
  const auto& nodes = trace_.graph_nodes;
  for (size_t first = 0, end = 0; first < nodes.size(); first = end) {
    while (end < nodes.size() && nodes[end].graph == nodes[first].graph)
      ++end;
    graph_nodes_[nodes[first].graph] = std::span(nodes).subspan(first, end - first);
  }
}

std::span<const TracedGraphNode> TraceIndex::NodesOf(uint32_t graph) const {
  const auto found = graph_nodes_.find(graph);
  return found == graph_nodes_.end() ? std::span<const TracedGraphNode>()
                                     : found->second;
}

const TracedOperation* TraceIndex::Captured(uint64_t number) const {
  const auto found = captured_.find(number);
  return found == captured_.end() ? nullptr : found->second;
}

void TraceIndex::FindIssuers() {
  uint32_t threads = 0;
  for (const TracedCall& call : trace_.calls)
    threads = std::max(threads, call.thread + 1);
  for (const TracedNcclCall& call : trace_.nccl_calls)
    threads = std::max(threads, call.thread + 1);
  for (const TracedRange& range : trace_.ranges)
    threads = std::max(threads, range.thread + 1);
  issues_.assign(threads, threads == 1);
  for (uint32_t i = 0; i < trace_.calls.size(); ++i) {
    const auto waits = syncs.Of(i);
    const bool makes_stream_wait =
        std::any_of(waits.begin(), waits.end(), [&](const RowsByCall::Row& row) {
          return trace_.syncs[row.row].kind == SyncKind::kStreamWait;
        });
    if (makes_stream_wait || !work.Of(i).empty() || !event_records.Of(i).empty() ||
        !streams.Of(i).empty() || !memory.Of(i).empty() || !reserves.Of(i).empty() ||
        !operations.Of(i).empty() || !graph_launches.Of(i).empty())
      issues_[trace_.calls[i].thread] = true;
  }
  for (const TracedNcclCall& call : trace_.nccl_calls)
    issues_[call.thread] = true;
  const TracedCall* last = nullptr;
  for (uint32_t i = 0; i < trace_.calls.size(); ++i) {
    const TracedCall& call = trace_.calls[i];
    if (nested_[i] || !issues_[call.thread])
      continue;
    if (last != nullptr && last->thread != call.thread &&
        call.start_ns < last->end_ns && last->start_ns < call.end_ns)
      ++concurrent_calls;
    if (last == nullptr || call.end_ns >= last->end_ns)
      last = &call;
  }
}

void TraceIndex::FindLastUses() {
  auto is_later = [&](uint32_t a, uint32_t b) {
    const TracedCall &call_a = trace_.calls[a], &call_b = trace_.calls[b];
    return std::pair(call_a.start_ns, call_a.correlation) >
           std::pair(call_b.start_ns, call_b.correlation);
  };
  auto use = [&](uint32_t context, uint32_t event, uint32_t correlation) {
    const uint32_t call = CallOf(correlation);
    if (call == kNoCall)
      return;
    const auto [last, is_new] = last_uses_.try_emplace({context, event}, call);
    if (!is_new && is_later(call, last->second))
      last->second = call;
  };
  for (const TracedEventRecord& row : trace_.event_records)
    use(row.context, row.event, row.correlation);
  for (const TracedSync& row : trace_.syncs)
    if (row.kind == SyncKind::kEvent || row.kind == SyncKind::kStreamWait)
      use(row.context, row.event, row.correlation);
}

uint32_t TraceIndex::LastUse(EventKey event) const {
  const auto found = last_uses_.find(event);
  return found == last_uses_.end() ? kNoCall : found->second;
}

void TraceIndex::MakeTimeline() {
  for (uint32_t i = 0; i < trace_.calls.size(); ++i)
    if (!nested_[i])
      timeline.push_back({trace_.calls[i].start_ns,
                          trace_.calls[i].start_ns == trace_.calls[i].end_ns
                              ? HostItem::Kind::kInstantCall
                              : HostItem::Kind::kCall,
                          i});
  for (uint32_t i = 0; i < trace_.nccl_calls.size(); ++i)
    timeline.push_back({trace_.nccl_calls[i].start_ns, HostItem::Kind::kNccl, i});
  for (uint32_t i = 0; i < trace_.ranges.size(); ++i)
    timeline.push_back({trace_.ranges[i].time_ns, HostItem::Kind::kRange, i});
  std::vector<bool> joined(trace_.reserves.size(), false);
  for (uint32_t i = 0; i < trace_.nccl_calls.size(); ++i)
    for (const RowsByCall::Row& row : nccl_reserves.Of(i))
      joined[row.row] = true;
  for (uint32_t i = 0; i < trace_.reserves.size(); ++i) {
    const TracedReserve& row = trace_.reserves[i];
    const bool has_call = row.correlation != 0 && CallOf(row.correlation) != kNoCall;
    if (!joined[i] && !has_call)
      timeline.push_back({row.time_ns, HostItem::Kind::kReserve, i});
  }
  auto order_of = [&](const HostItem& item) {
    const bool is_call =
        item.kind == HostItem::Kind::kCall || item.kind == HostItem::Kind::kInstantCall;
    return is_call ? trace_.calls[item.index].correlation : item.index;
  };
  std::stable_sort(
      timeline.begin(), timeline.end(), [&](const HostItem& a, const HostItem& b) {
        if (a.time_ns != b.time_ns)
          return a.time_ns < b.time_ns;
        return a.kind != b.kind ? a.kind < b.kind : order_of(a) < order_of(b);
      });
}

namespace {

absl::Status CheckGraph(const RankTrace& trace,
                        std::span<const TracedGraphNode> nodes) {
  const auto bad = [&](std::string what) {
    return absl::InvalidArgumentError(
        fmt::format("trace '{}': CUDA graph {}: {}; trace the rank again", trace.file,
                    nodes.front().graph, what));
  };
  NodeEdges before;
  for (const TracedGraphNode& node : nodes) {
    if (node.index != before.size())
      return bad(fmt::format("node {} stands where node {} should", node.index,
                             before.size()));
    for (const uint32_t other : node.before)
      if (other >= nodes.size())
        return bad(fmt::format("node {} waits for node {} of {}", node.index, other,
                               nodes.size()));
    before.push_back(node.before);
  }
  return OrderNodes(before).size() == nodes.size()
             ? absl::OkStatus()
             : bad("its nodes wait for each other in a circle");
}

}  // namespace

absl::Status CheckTrace(const RankTrace& trace) {
  auto check_name = [&](uint32_t name, const char* what, size_t row) {
    if (name < trace.names.size())
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("trace '{}': {} {} has name {} of {}; trace the rank again",
                    trace.file, what, row, name, trace.names.size()));
  };
  constexpr uint32_t kMaxThreads = 1 << 20;
  auto check_thread = [&](uint32_t thread, const char* what, size_t row) {
    if (thread < kMaxThreads)
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("trace '{}': {} {} is of thread {}; trace the rank again",
                    trace.file, what, row, thread));
  };
  absl::Status status;
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    status.Update(check_name(trace.calls[i].function, "call", i));
    status.Update(check_thread(trace.calls[i].thread, "call", i));
  }
  for (size_t i = 0; i < trace.work.size(); ++i)
    status.Update(check_name(trace.work[i].name, "kernel", i));
  for (size_t i = 0; i < trace.ranges.size(); ++i) {
    status.Update(check_name(trace.ranges[i].name, "range", i));
    status.Update(check_thread(trace.ranges[i].thread, "range", i));
  }
  const std::span nodes(trace.graph_nodes);
  std::set<uint32_t> graphs;
  for (size_t first = 0, end = 0; first < nodes.size() && status.ok(); first = end) {
    while (end < nodes.size() && nodes[end].graph == nodes[first].graph)
      ++end;
    status.Update(CheckGraph(trace, nodes.subspan(first, end - first)));
    if (!graphs.insert(nodes[first].graph).second)
      status.Update(absl::InvalidArgumentError(
          fmt::format("trace '{}': CUDA graph {} stands there twice; trace the rank "
                      "again",
                      trace.file, nodes[first].graph)));
  }
  for (size_t i = 0; i < trace.nccl_calls.size(); ++i)
    status.Update(check_thread(trace.nccl_calls[i].thread, "NCCL call", i));
  return status;
}

}  // namespace vrank::graph
