// Calls and work are nearly all of a trace: they are written where they stay, from
// where they were read, without the general way's checks of what cannot be.

#include "graph/trace/record_decoder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/trace/record_rows.h"

namespace vrank::graph {
namespace {

using trace::Kind;

void AddCall(const trace::Call& from, RawRows* rows) {
  TracedCall& call = rows->trace.calls.emplace_back();
  call.function = from.function;
  call.is_driver = Flag(from.record, trace::kDriverCall);
  call.correlation = from.correlation;
  call.thread = from.thread;
  call.start_ns = from.start_ns;
  call.end_ns = from.end_ns;
  call.result = from.result;
  rows->highest_name = std::max(rows->highest_name, from.function);
}

bool IsKnown(trace::WorkKind work) {
  return work <= trace::WorkKind::kMemset;
}

WorkClass ClassOf(trace::WorkKind work) {
  return work == trace::WorkKind::kKernel ? WorkClass::kKernel
         : work == trace::WorkKind::kCopy ? WorkClass::kCopy
                                          : WorkClass::kMemset;
}

// REQUIRES: IsKnown(from.work).
void AddWork(const trace::Work& from, RawRows* rows) {
  TracedWork& work = rows->trace.work.emplace_back();
  work.work = ClassOf(from.work);
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
  rows->highest_name = std::max(rows->highest_name, from.name);
}

Fault Add(const trace::Call& from, RawRows* rows) {
  AddCall(from, rows);
  return "";
}

Fault Add(const trace::Work& from, RawRows* rows) {
  if (!IsKnown(from.work))
    return fmt::format("there is no work of kind {}", static_cast<uint32_t>(from.work));
  AddWork(from, rows);
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
      VRANK_FIXED(HostTime)
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

// A call, or a known work, as this build writes them? Then it is added.
bool AddFrequent(const trace::Record& record, const char* bytes, RawRows* rows) {
  if (record.kind == Kind::kCall && record.size == sizeof(trace::Call)) {
    trace::Call call;
    std::memcpy(&call, bytes, sizeof call);
    AddCall(call, rows);
    return true;
  }
  if (record.kind == Kind::kWork && record.size == sizeof(trace::Work)) {
    trace::Work work;
    std::memcpy(&work, bytes, sizeof work);
    if (!IsKnown(work.work))
      return false;
    AddWork(work, rows);
    return true;
  }
  return false;
}

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
    if (!AddFrequent(record, all.data() + at, rows)) {
      const Fault fault = AddRecord(record, all.substr(at, record.size), rows);
      if (!fault.empty())
        return chunk.Damaged(at, fault);
    }
    at += record.size;
  }
  if (count != chunk.header().records)
    return chunk.Damaged(at, fmt::format("it has {} records and says {}", count,
                                         chunk.header().records));
  return absl::OkStatus();
}

}  // namespace vrank::graph
