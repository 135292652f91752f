// Files: reading is chunk_reader -> record_decoder -> row_joiner -> canonical_order,
// writing is canonical_writer.

#include "graph/trace/trace_file.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "base/status_macros.h"
#include "base/whole_file.h"
#include "graph/schema/pair_id.h"
#include "graph/trace/canonical_order.h"
#include "graph/trace/canonical_writer.h"
#include "graph/trace/chunk_reader.h"
#include "graph/trace/context_memory.h"
#include "graph/trace/record_decoder.h"
#include "graph/trace/row_joiner.h"
#include "graph/trace/row_memory.h"

namespace vrank::graph {
namespace {

absl::Status CannotWrite(const std::string& path) {
  const std::string why = std::strerror(errno);
  return absl::UnavailableError(fmt::format(
      "trace '{}': cannot be written: {}; make room or name another place", path, why));
}

}  // namespace

namespace {

absl::StatusOr<OpenFile> Open(const std::string& path) {
  absl::StatusOr<OpenFile> file = OpenRegularFile(path);
  if (absl::IsNotFound(file.status()))
    return absl::NotFoundError(fmt::format(
        "trace '{}': there is no such file; check the path, or trace the rank", path));
  if (!file.ok())
    return absl::Status(
        file.status().code(),
        fmt::format("trace '{}': {}", path, std::string(file.status().message())));
  return file;
}

}  // namespace

absl::StatusOr<RankTrace> ReadTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile file, Open(path));
  return ReadTraceFrom(file.get(), path);
}

absl::StatusOr<TraceSession> ReadSession(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile file, Open(path));
  RawRows rows;
  ChunkReader chunks(file.get(), path);
  ASSIGN_OR_RETURN(const bool more, chunks.Next());
  if (more)
    RETURN_IF_ERROR(DecodeRecords(chunks, &rows));
  if (!rows.canonical)
    return absl::InvalidArgumentError(fmt::format(
        "trace '{}': it does not say which rank it is of: `vrank trace` has not "
        "finished it; trace the rank again",
        path));
  return std::move(rows.trace.session);
}

// Rows take at most this many times the file: more than any that was seen (23).
constexpr uint64_t kMostGrowth = 64;

absl::StatusOr<RankTrace> ReadTraceFrom(FILE* file, const std::string& name) {
  RawRows rows;
  rows.trace.file = name;
  ChunkReader chunks(file, name);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, chunks.Next());
    if (!more)
      break;
    const size_t calls = rows.trace.calls.size(), work = rows.trace.work.size();
    RETURN_IF_ERROR(DecodeRecords(chunks, &rows));
    const uint64_t times = chunks.LikeItToCome(), most = kMostGrowth * chunks.bytes();
    MakeRoom(times, calls, most, &rows.trace.calls);
    MakeRoom(times, work, most, &rows.trace.work);
  }
  if (!rows.ended && rows.canonical)
    return absl::DataLossError(fmt::format(
        "trace '{}': the file is cut short: it stops behind a whole chunk, before the "
        "end of the trace; copy the file again, or trace the rank again",
        name));
  if (!rows.ended)
    rows.trace.complete = false;
  RETURN_IF_ERROR(ResolveNames(&rows));
  if (!rows.canonical) {
    JoinRows(&rows);
    PutInOrder(&rows.trace);
  }
  return std::move(rows.trace);
}

absl::Status WriteTrace(const std::string& path, const RankTrace& trace,
                        const TraceWriteOptions& options) {
  WholeFile file(path);
  if (file.stream() == nullptr)
    return CannotWrite(path);
  RETURN_IF_ERROR(EncodeTrace(trace, options.compress, [&](std::string_view bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), file.stream()) == bytes.size()
               ? absl::OkStatus()
               : CannotWrite(path);
  }));
  return file.Commit() ? absl::OkStatus() : CannotWrite(path);
}

namespace {

// The key in the store, which names both ranks, is not in the trace.
void SayEndsOfPairs(RankTrace* trace) {
  for (TracedNcclCall& call : trace->nccl_calls) {
    const auto served = trace->session.communicators.find(call.communicator);
    if (call.kind == TracedNcclCall::Kind::kInit &&
        served != trace->session.communicators.end() &&
        served->second.identity.starts_with(kPairName) &&
        served->second.members.size() == 2)
      call.creation.unique_id =
          IdOfPair({served->second.members.front(), served->second.members.back()});
  }
}

absl::Status CheckThatRecordsCame(const RankTrace& trace) {
  // The process has ended, and not by a signal: that would be the run's own error.
  if (!trace.complete)
    return absl::DataLossError(fmt::format(
        "trace '{}': it has no end, so the program ended without what is due at its "
        "exit (_exit, quick_exit, os._exit, another program in its place): what the "
        "tracer still held is lost; let it call exit, or return from main",
        trace.file));
  if (!trace.records_taken)
    return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "trace '{}': the program, or a library of it, uses CUPTI itself (a profiler?): "
      "CUPTI gave the records to that, and the tracer got {} "
      "calls and {} kernels and copies of a number that nobody knows; run the program "
      "without its profiler",
      trace.file, trace.calls.size(), trace.work.size()));
}

}  // namespace

absl::Status FinishSlice(const std::string& raw_path, const TraceSession& session,
                         std::optional<int64_t> clock_start_ns,
                         std::vector<TracedHostTime> host_times,
                         const std::string& path, const TraceWriteOptions& options) {
  ASSIGN_OR_RETURN(RankTrace trace, ReadTrace(raw_path));
  RETURN_IF_ERROR(CheckThatRecordsCame(trace));
  trace.session = session;
  SayEndsOfPairs(&trace);
  trace.host_times = std::move(host_times);
  MoveTimes(clock_start_ns, &trace);
  AddContextMemory(&trace);
  PutInOrder(&trace);
  return WriteTrace(path, trace, options);
}

}  // namespace vrank::graph
