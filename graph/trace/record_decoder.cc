// One function per kind. Lengths are checked before a field is read; values that index
// something, or that an enumeration lacks, before they become a row.

#include "graph/trace/record_decoder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/trace/session_proto.h"

namespace vrank::graph {
namespace {

using trace::Kind;

bool Flag(const trace::Record& record, uint16_t flag) {
  return (record.flags & flag) != 0;
}

// What is wrong with a record; empty: nothing.
using Fault = std::string;

Fault Add(const trace::Name& from, std::string_view tail, RawRows* rows) {
  if (from.length > tail.size())
    return "a name is longer than its record";
  if (from.name == 0)
    return "name 0 is defined";
  if (!rows->names.emplace(from.name, tail.substr(0, from.length)).second)
    return fmt::format("name {} is defined twice", from.name);
  return "";
}

// Calls and work, nearly all of a trace, are written where they stay: a copy of what
// was just put together from smaller parts stalls the processor.
Fault Add(const trace::Call& from, RawRows* rows) {
  TracedCall& call = rows->trace.calls.emplace_back();
  call.function = from.function;
  call.is_driver = Flag(from.record, trace::kDriverCall);
  call.correlation = from.correlation;
  call.thread = from.thread;
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  call.result = from.result;
  return "";
}

Fault Add(const trace::Work& from, RawRows* rows) {
  TracedWork& work = rows->trace.work.emplace_back();
  switch (from.work) {
    case trace::WorkKind::kKernel:
      work.work = WorkClass::kKernel;
      break;
    case trace::WorkKind::kCopy:
      work.work = WorkClass::kCopy;
      break;
    case trace::WorkKind::kMemset:
      work.work = WorkClass::kMemset;
      break;
    default:
      return fmt::format("there is no work of kind {}",
                         static_cast<uint32_t>(from.work));
  }
  work.correlation = from.correlation;
  work.device = from.device;
  work.context = from.context;
  work.stream = from.stream;
  work.name = from.name;
  std::copy_n(from.grid, 3, work.grid);
  std::copy_n(from.block, 3, work.block);
  work.shared_bytes = from.shared_bytes;
  work.registers = from.registers;
  work.copy_kind = from.copy_kind;
  work.bytes = from.bytes;
  work.graph_node = from.graph_node;
  work.start_ns = from.start_ns;
  work.end_ns = from.end_ns;
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
                                  .time_ns = from.time_ns});
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

Fault Add(const trace::Range& from, RawRows* rows) {
  rows->trace.ranges.push_back({.begin = !Flag(from.record, trace::kRangeEnds),
                                .thread = from.thread,
                                .id = from.id,
                                .name = from.name,
                                .time_ns = from.time_ns});
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

template <typename T>
TracedOperation OperationOf(const T& from, RawRows* rows) {
  TracedOperation operation;
  operation.correlation = from.correlation;
  operation.communicator = from.communicator;
  operation.stream = from.stream;
  operation.captured = Flag(from.record, trace::kCaptured) ? from.operation_id : 0;
  rows->operation_ids.push_back(from.operation_id);
  rows->operation_threads.push_back(from.thread);
  return operation;
}

Fault Add(const trace::Collective& from, RawRows* rows) {
  if (from.operation > CollectiveKind::kScatter || from.type > ElementType::kTfloat32 ||
      from.reduction > Reduction::kPreMulSum)
    return fmt::format("there is no collective {} of type {} with reduction {}",
                       static_cast<int>(from.operation), static_cast<int>(from.type),
                       static_cast<int>(from.reduction));
  TracedOperation operation = OperationOf(from, rows);
  operation.call = {from.operation, from.type, from.reduction, from.root, from.count};
  rows->trace.operations.push_back(std::move(operation));
  return "";
}

Fault Add(const trace::Transfers& from, std::string_view tail, RawRows* rows) {
  if (from.count > tail.size() / sizeof(Transfer))
    return fmt::format("{} transfers do not fit into their record", from.count);
  TracedOperation operation = OperationOf(from, rows);
  operation.is_collective = false;
  operation.transfers.resize(from.count);
  if (from.count > 0)
    std::memcpy(operation.transfers.data(), tail.data(), from.count * sizeof(Transfer));
  rows->trace.operations.push_back(std::move(operation));
  return "";
}

Fault Add(const trace::Creation& from, RawRows* rows) {
  TracedNcclCall call;
  call.kind =
      from.parent == 0 ? TracedNcclCall::Kind::kInit : TracedNcclCall::Kind::kSplit;
  call.communicator = from.communicator;
  call.thread = from.thread;
  call.creation.parent = from.parent;
  call.creation.color = from.color;
  call.creation.key = from.key;
  call.creation.ranks = from.ranks;
  call.creation.rank = from.rank;
  std::memcpy(call.creation.unique_id.data(), from.unique_id, sizeof from.unique_id);
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  call.told_size = from.told_size;
  call.told_index = from.told_index;
  rows->creation_names.push_back(
      {static_cast<uint32_t>(rows->trace.nccl_calls.size()), from.name});
  rows->trace.nccl_calls.push_back(std::move(call));
  return "";
}

Fault Add(const trace::Release& from, RawRows* rows) {
  if (from.release > ReleaseKind::kAbort)
    return fmt::format("there is no release of kind {}",
                       static_cast<uint32_t>(from.release));
  TracedNcclCall call;
  call.kind = TracedNcclCall::Kind::kRelease;
  call.communicator = from.communicator;
  call.thread = from.thread;
  call.release = from.release;
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  rows->trace.nccl_calls.push_back(std::move(call));
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

// Calls `add` with the record as T and what follows it. What an older file's shorter
// record lacks is 0.
template <typename T, typename AddFunction>
Fault With(std::string_view bytes, AddFunction add, size_t shortest = sizeof(T)) {
  if (bytes.size() < shortest)
    return fmt::format("a record of {} bytes is too short for its kind", bytes.size());
  T record{};
  const size_t size = std::min(sizeof record, bytes.size());
  // Mostly a number that is known here.
  std::memcpy(&record, bytes.data(), size == sizeof record ? sizeof record : size);
  return add(record, bytes.substr(size));
}

template <typename T>
Fault AddFixed(std::string_view bytes, RawRows* rows, size_t shortest = sizeof(T)) {
  return With<T>(
      bytes, [&](const T& record, std::string_view) { return Add(record, rows); },
      shortest);
}

template <typename T>
Fault AddWithTail(std::string_view bytes, RawRows* rows) {
  return With<T>(bytes, [&](const T& record, std::string_view tail) {
    return Add(record, tail, rows);
  });
}

#define VRANK_FIXED(name) \
  case Kind::k##name:     \
    return AddFixed<trace::name>(bytes, rows);

Fault AddRecord(const trace::Record& record, std::string_view bytes, RawRows* rows) {
  switch (record.kind) {
    case Kind::kPad:
    case Kind::kStart:
      return "";
    case Kind::kName:
      return AddWithTail<trace::Name>(bytes, rows);
      VRANK_FIXED(Call)
      VRANK_FIXED(Work)
      VRANK_FIXED(Sync)
      VRANK_FIXED(EventRecord)
      VRANK_FIXED(Stream)
      VRANK_FIXED(Context)
      VRANK_FIXED(Memory)
      VRANK_FIXED(Pool)
    case Kind::kReserve:
      return AddFixed<trace::Reserve>(bytes, rows, trace::kShortestReserve);
      VRANK_FIXED(Range)
      VRANK_FIXED(Overhead)
      VRANK_FIXED(ExternalId)
      VRANK_FIXED(Collective)
    case Kind::kTransfers:
      return AddWithTail<trace::Transfers>(bytes, rows);
      VRANK_FIXED(Creation)
      VRANK_FIXED(Release)
      VRANK_FIXED(Dropped)
    case Kind::kGraphNode:
      return AddWithTail<trace::GraphNode>(bytes, rows);
      VRANK_FIXED(GraphChange)
      VRANK_FIXED(GraphLaunch)
    case Kind::kSession:
      return AddWithTail<trace::Session>(bytes, rows);
    case Kind::kEnd:
      rows->ended = true;
      rows->trace.complete = !Flag(record, trace::kCutOff);
      rows->trace.records_taken = Flag(record, trace::kRecordsTaken);
      return "";
    case Kind::kLimit:
      break;
  }
  ++rows->trace.unknown_records;
  return "";
}
#undef VRANK_FIXED

}  // namespace

absl::Status DecodeRecords(const ChunkReader& chunk, RawRows* rows) {
  const std::string_view all = chunk.records();
  rows->canonical |= chunk.header().source == trace::Source::kCanonical;
  size_t at = 0;
  uint32_t count = 0;
  for (; at < all.size(); ++count) {
    trace::Record record;
    std::memcpy(&record, all.data() + at, sizeof record);  // lengths are multiples of 8
    if (record.size < sizeof record || record.size % 8 != 0 ||
        record.size > all.size() - at)
      return chunk.Damaged(
          at, fmt::format("a record of {} bytes cannot stand here", record.size));
    const Fault fault = AddRecord(record, all.substr(at, record.size), rows);
    if (!fault.empty())
      return chunk.Damaged(at, fault);
    at += record.size;
  }
  if (count != chunk.header().records)
    return chunk.Damaged(at, fmt::format("it has {} records and says {}", count,
                                         chunk.header().records));
  return absl::OkStatus();
}

}  // namespace vrank::graph
