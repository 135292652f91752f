// What CUPTI and the tracer itself said; see record_rows.h.

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/trace/record_rows.h"
#include "graph/trace/session_proto.h"

namespace vrank::graph {

Fault Add(const trace::Name& from, std::string_view tail, RawRows* rows) {
  if (from.length > tail.size())
    return "a name is longer than its record";
  if (from.name == 0)
    return "name 0 is defined";
  if (!rows->names.emplace(from.name, tail.substr(0, from.length)).second)
    return fmt::format("name {} is defined twice", from.name);
  return "";
}

Fault Add(const trace::Sync& from, RawRows* rows) {
  // Others than these are no waits that this build knows; CUPTI also has 0, unknown.
  if (from.sync < static_cast<uint32_t>(SyncKind::kEvent) ||
      from.sync > static_cast<uint32_t>(SyncKind::kContext)) {
    ++rows->trace.unknown_records;
    return "";
  }
  rows->trace.syncs.push_back({.kind = static_cast<SyncKind>(from.sync),
                               .correlation = from.correlation,
                               .context = from.context,
                               .stream = from.stream,
                               .event = from.event,
                               .event_sync_id = from.event_sync_id,
                               .start_ns = from.start_ns,
                               .end_ns = from.end_ns});
  return "";
}

Fault Add(const trace::EventRecord& from, RawRows* rows) {
  rows->trace.event_records.push_back(
      {from.correlation, from.context, from.stream, from.event, from.event_sync_id});
  return "";
}

Fault Add(const trace::Stream& from, RawRows* rows) {
  if (from.stream_kind > trace::StreamKind::kNonBlocking)
    return fmt::format("there is no stream of kind {}",
                       static_cast<uint32_t>(from.stream_kind));
  rows->trace.streams.push_back(
      {.context = from.context,
       .stream = from.stream,
       .kind = static_cast<TracedStream::Kind>(from.stream_kind),
       .priority = from.priority,
       .destroyed = Flag(from.record, trace::kDestroyed),
       .correlation = from.correlation});
  return "";
}

Fault Add(const trace::Context& from, RawRows* rows) {
  rows->trace.contexts.push_back({.context = from.context,
                                  .destroyed = Flag(from.record, trace::kDestroyed),
                                  .time_ns = from.time_ns,
                                  .code_bytes = from.code_bytes});
  rows->context_threads.push_back(from.thread);
  return "";
}

Fault Add(const trace::Memory& from, RawRows* rows) {
  rows->trace.memory.push_back({.release = Flag(from.record, trace::kReleased),
                                .device = !Flag(from.record, trace::kHostMemory),
                                .is_async = Flag(from.record, trace::kAsync),
                                .correlation = from.correlation,
                                .stream = from.stream,
                                .address = from.address,
                                .bytes = from.bytes,
                                .time_ns = from.time_ns});
  return "";
}

Fault Add(const trace::Pool& from, RawRows* rows) {
  rows->pools.push_back({from.address, from.bytes, from.correlation, from.time_ns});
  return "";
}

Fault Add(const trace::Reserve& from, RawRows* rows) {
  if (from.owner > MemoryOwner::kCommunicator)
    return fmt::format("memory has no owner {}", static_cast<uint32_t>(from.owner));
  rows->trace.reserves.push_back({.owner = from.owner,
                                  .delta_bytes = from.delta_bytes,
                                  .correlation = from.correlation,
                                  .time_ns = from.time_ns,
                                  .communicator = from.communicator});
  return "";
}

Fault Add(const trace::HostTime& from, RawRows* rows) {
  std::vector<TracedHostTime>& all = rows->trace.host_times;
  const int64_t before = all.empty() ? 0 : all.back().end_ns();
  if (from.ns <= 0 || from.after_ns < before ||
      from.ns > std::numeric_limits<int64_t>::max() - from.after_ns)
    return fmt::format(
        "{} ns of the program after {} ns of host time, of which {} ns have passed",
        from.ns, from.after_ns, before);
  all.push_back({.source = Flag(from.record, trace::kMeasuredTime) ? Source::kMeasured
                                                                   : Source::kRecorded,
                 .after_ns = from.after_ns,
                 .ns = from.ns});
  return "";
}

Fault Add(const trace::Range& from, RawRows* rows) {
  rows->trace.ranges.push_back({.begin = !Flag(from.record, trace::kRangeEnds),
                                .thread = from.thread,
                                .id = from.id,
                                .name = from.name,
                                .time_ns = from.time_ns});
  rows->highest_name = std::max(rows->highest_name, from.name);
  return "";
}

Fault Add(const trace::Overhead& from, RawRows* rows) {
  rows->trace.overheads.push_back({.kind = Flag(from.record, trace::kLaunchQueueFull)
                                               ? TracedOverhead::Kind::kLaunchQueueFull
                                               : TracedOverhead::Kind::kProfiler,
                                   .correlation = from.correlation,
                                   .thread = from.thread,
                                   .start_ns = from.start_ns,
                                   .end_ns = from.end_ns});
  return "";
}

Fault Add(const trace::ExternalId& from, RawRows* rows) {
  rows->external_ids[from.id].push_back(from.correlation);
  return "";
}

Fault Add(const trace::GraphNode& from, std::string_view tail, RawRows* rows) {
  const size_t numbers = size_t{from.before} + from.operations;
  if (numbers > tail.size() / sizeof(uint64_t))
    return fmt::format("{} numbers of a graph's node do not fit", numbers);
  TracedGraphNode node{
      from.graph, from.index, from.node, static_cast<GraphNodeKind>(from.type), {}, {}};
  for (size_t i = 0; i < numbers; ++i) {
    uint64_t number;
    std::memcpy(&number, tail.data() + i * sizeof number, sizeof number);
    if (i >= from.before)
      node.operations.push_back(number);
    else
      node.before.push_back(static_cast<uint32_t>(number));
  }
  rows->trace.graph_nodes.push_back(std::move(node));
  return "";
}

Fault Add(const trace::GraphChange& from, RawRows* rows) {
  rows->trace.graph_changes.push_back(
      {from.graph, from.correlation, Flag(from.record, trace::kDestroyed)});
  return "";
}

Fault Add(const trace::GraphLaunch& from, RawRows* rows) {
  auto& launches = rows->trace.graph_launches;
  launches.push_back({from.correlation, from.graph, from.context, from.stream});
  return "";
}

Fault Add(const trace::Dropped& from, RawRows* rows) {
  rows->trace.dropped_by_cupti += from.by_cupti;
  rows->trace.dropped_by_tracer += from.by_tracer;
  return "";
}

Fault Add(const trace::Session& from, std::string_view tail, RawRows* rows) {
  if (from.length > tail.size())
    return "the session is longer than its record";
  if (!ParseSession(tail.substr(0, from.length), &rows->trace.session))
    return "what the session knew cannot be read";
  return "";
}

}  // namespace vrank::graph
