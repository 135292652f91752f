// Each join is a pass over its rows.

#include "graph/trace/row_joiner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace vrank::graph {
namespace {

// Correlation of an inner call -> that of the call that made it.
using Outer = std::unordered_map<uint32_t, uint32_t>;

// Strictly inside: calls that follow each other may touch, or take no time at all.
bool IsInside(const TracedCall& inner, const TracedCall& outer) {
  return inner.is_driver && !outer.is_driver && inner.start_ns > outer.start_ns &&
         inner.end_ns < outer.end_ns;
}

Outer FoldNestedCalls(std::vector<TracedCall>* calls) {
  std::stable_sort(calls->begin(), calls->end(),
                   [](const TracedCall& a, const TracedCall& b) {
                     return std::tie(a.thread, a.start_ns, b.end_ns, a.correlation) <
                            std::tie(b.thread, b.start_ns, a.end_ns, b.correlation);
                   });
  Outer outer;
  std::vector<TracedCall> kept;
  kept.reserve(calls->size());
  size_t runtime = std::numeric_limits<size_t>::max();  // in kept: the last of its kind
  for (const TracedCall& call : *calls) {
    if (runtime < kept.size() && kept[runtime].thread == call.thread &&
        IsInside(call, kept[runtime])) {
      if (call.correlation != kept[runtime].correlation)
        outer.emplace(call.correlation, kept[runtime].correlation);
      continue;
    }
    if (!call.is_driver)
      runtime = kept.size();
    kept.push_back(call);
  }
  *calls = std::move(kept);
  return outer;
}

void MoveToOuterCalls(const Outer& outer, RawRows* rows) {
  if (outer.empty())
    return;
  const auto move = [&](uint32_t* correlation) {
    if (const auto found = outer.find(*correlation); found != outer.end())
      *correlation = found->second;
  };
  const auto move_all = [&](auto& list) {
    for (auto& row : list)
      move(&row.correlation);
  };
  RankTrace& trace = rows->trace;
  move_all(trace.work);
  move_all(trace.syncs);
  move_all(trace.event_records);
  move_all(trace.streams);
  move_all(trace.memory);
  move_all(trace.reserves);
  move_all(trace.overheads);
  move_all(trace.graph_changes);
  move_all(trace.graph_launches);
  move_all(rows->pools);
  for (auto& [id, correlations] : rows->external_ids)
    for (uint32_t& correlation : correlations)
      move(&correlation);
}

void JoinOperations(RawRows* rows) {
  std::unordered_map<uint32_t, uint32_t> stream_of;  // by correlation: of its work
  for (const TracedWork& work : rows->trace.work)
    stream_of.emplace(work.correlation, work.stream);
  for (size_t i = 0; i < rows->trace.operations.size(); ++i) {
    TracedOperation& operation = rows->trace.operations[i];
    const auto found = rows->external_ids.find(rows->operation_ids[i]);
    if (found == rows->external_ids.end())
      continue;
    // Calls around the launch (an event record, a wait) carry the id, too.
    bool launched = false;
    for (const uint32_t correlation : found->second) {
      const auto work = stream_of.find(correlation);
      if (launched && work == stream_of.end())
        continue;
      launched |= work != stream_of.end();
      operation.correlation = std::max(operation.correlation, correlation);
      if (work != stream_of.end()) {
        operation.correlation = correlation;
        operation.stream = work->second;
      }
    }
  }
}

void JoinPools(RawRows* rows) {
  std::stable_sort(rows->pools.begin(), rows->pools.end(),
                   [](const RawRows::PoolSize& a, const RawRows::PoolSize& b) {
                     return std::tie(a.time_ns, a.correlation) <
                            std::tie(b.time_ns, b.correlation);
                   });
  std::unordered_map<uint64_t, uint64_t> size_of;  // by address
  for (const RawRows::PoolSize& pool : rows->pools) {
    uint64_t& size = size_of[pool.address];
    const auto delta = static_cast<int64_t>(pool.bytes - size);
    size = pool.bytes;
    if (delta != 0)
      rows->trace.reserves.push_back({.owner = MemoryOwner::kProgram,
                                      .delta_bytes = delta,
                                      .correlation = pool.correlation,
                                      .time_ns = pool.time_ns});
  }
}

// A context belongs to its thread's call around it. One that ends at that very moment
// has made it as its last deed; one that begins then found it made.
void JoinContexts(RawRows* rows) {
  for (size_t i = 0; i < rows->trace.contexts.size(); ++i) {
    TracedContext& context = rows->trace.contexts[i];
    for (const TracedCall& call : rows->trace.calls)
      if (call.thread == rows->context_threads[i] && call.start_ns < context.time_ns &&
          context.time_ns <= call.end_ns)
        context.correlation = call.correlation;
  }
}

void NameRangeEnds(std::vector<TracedRange>* ranges) {
  std::unordered_map<uint32_t, uint32_t> name_of;  // by id
  for (const TracedRange& range : *ranges)
    if (range.begin)
      name_of[range.id] = range.name;
  for (TracedRange& range : *ranges)
    if (const auto found = name_of.find(range.id);
        !range.begin && found != name_of.end())
      range.name = found->second;
}

void JoinNcclThreads(RawRows* rows) {
  RankTrace& trace = rows->trace;
  std::unordered_map<uint32_t, uint32_t> caller_of;  // CUPTI's thread by correlation
  std::unordered_map<uint32_t, bool> is_cupti;
  for (const TracedCall& call : trace.calls) {
    caller_of.emplace(call.correlation, call.thread);
    is_cupti[call.thread] = true;
  }
  std::unordered_map<uint32_t, uint32_t> cupti_thread;  // by the system's
  for (size_t i = 0; i < trace.operations.size(); ++i)
    if (const auto caller = caller_of.find(trace.operations[i].correlation);
        caller != caller_of.end())
      cupti_thread.emplace(rows->operation_threads[i], caller->second);
  std::vector<const TracedCall*> by_end;
  for (const TracedCall& call : trace.calls)
    by_end.push_back(&call);
  std::sort(by_end.begin(), by_end.end(), [](const TracedCall* a, const TracedCall* b) {
    return std::tie(a->end_ns, a->correlation) < std::tie(b->end_ns, b->correlation);
  });
  for (TracedNcclCall& call : trace.nccl_calls) {
    if (const auto found = cupti_thread.find(call.thread);
        found != cupti_thread.end()) {
      call.thread = found->second;
    } else if (!is_cupti.contains(call.thread) && !by_end.empty()) {
      const auto after = std::upper_bound(
          by_end.begin(), by_end.end(), call.start_ns,
          [](int64_t time, const TracedCall* other) { return time < other->end_ns; });
      call.thread = after == by_end.begin() ? by_end.front()->thread
                                            : (*std::prev(after))->thread;
    }
  }
}

}  // namespace

absl::Status ResolveNames(RawRows* rows) {
  // By number, so that a canonical file's names keep theirs.
  const std::map<uint32_t, std::string> sorted(rows->names.begin(), rows->names.end());
  std::unordered_map<uint32_t, uint32_t> index_of;
  for (const auto& [number, text] : sorted) {
    index_of[number] = static_cast<uint32_t>(rows->trace.names.size());
    rows->trace.names.push_back(text);
  }
  uint32_t undefined = 0;
  // In a canonical file a name's number is its index.
  const bool same = sorted.empty() || sorted.rbegin()->first == sorted.size();
  if (!same || rows->highest_name > sorted.size()) {
    ForEachName(&rows->trace, [&](uint32_t* name) {
      const auto found = index_of.find(*name);
      if (found == index_of.end() && *name != 0)
        undefined = *name;
      *name = found == index_of.end() ? 0 : found->second;
    });
  }
  for (const RawRows::CreationName& creation : rows->creation_names)
    if (const auto found = rows->names.find(creation.name); found != rows->names.end())
      rows->trace.nccl_calls[creation.call].creation.name = found->second;
    else if (creation.name != 0)
      undefined = creation.name;
  if (undefined == 0 || !rows->canonical)
    return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "trace '{}': name {} is used and defined nowhere in the file; copy the "
      "file again, or trace the rank again",
      rows->trace.file, undefined));
}

void JoinRows(RawRows* rows) {
  MoveToOuterCalls(FoldNestedCalls(&rows->trace.calls), rows);
  JoinOperations(rows);
  JoinPools(rows);
  JoinContexts(rows);
  NameRangeEnds(&rows->trace.ranges);
  JoinNcclThreads(rows);
}

}  // namespace vrank::graph
