// Files: reading is chunk_reader -> record_decoder -> row_joiner -> canonical_order,
// writing is canonical_writer.

#include "graph/trace/trace_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "base/status_macros.h"
#include "graph/trace/canonical_order.h"
#include "graph/trace/canonical_writer.h"
#include "graph/trace/chunk_reader.h"
#include "graph/trace/record_decoder.h"
#include "graph/trace/row_joiner.h"

namespace vrank::graph {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;

absl::Status CannotWrite(const std::string& path) {
  const std::string why = std::strerror(errno);
  return absl::UnavailableError(fmt::format(
      "trace '{}': cannot be written: {}; make room or name another place", path, why));
}

}  // namespace

absl::StatusOr<RankTrace> ReadTrace(const std::string& path) {
  if (const absl::Status status = CheckNoPipe(path); !status.ok())
    return absl::Status(status.code(), fmt::format("trace '{}': {}", path,
                                                   std::string(status.message())));
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr && errno == ENOENT)
    return absl::NotFoundError(fmt::format(
        "trace '{}': there is no such file; check the path, or trace the rank", path));
  if (file == nullptr)
    return absl::UnavailableError(
        fmt::format("trace '{}': cannot be opened: {}; check the file's permissions",
                    path, std::strerror(errno)));
  return ReadTraceFrom(file.get(), path);
}

absl::StatusOr<RankTrace> ReadTraceFrom(FILE* file, const std::string& name) {
  RawRows rows;
  rows.trace.file = name;
  ChunkReader chunks(file, name);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, chunks.Next());
    if (!more)
      break;
    RETURN_IF_ERROR(DecodeRecords(chunks, &rows));
  }
  if (!rows.ended && rows.canonical)
    return absl::DataLossError(fmt::format(
        "trace '{}': the file has no end; copy the file again, or trace the "
        "rank again",
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
  const std::string unfinished = path + ".part";
  File file(std::fopen(unfinished.c_str(), "wb"));
  if (file == nullptr)
    return CannotWrite(path);
  absl::Status status =
      EncodeTrace(trace, options.compress, [&](std::string_view bytes) {
        return std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size()
                   ? absl::OkStatus()
                   : CannotWrite(path);
      });
  if (status.ok() && (std::fclose(file.release()) != 0 ||
                      std::rename(unfinished.c_str(), path.c_str()) != 0))
    status = CannotWrite(path);
  if (!status.ok())
    unlink(unfinished.c_str());
  return status;
}

namespace {

// A context comes with the first call that needs it: there its memory is taken.
void AddContextMemory(RankTrace* trace) {
  const auto first = std::min_element(
      trace->calls.begin(), trace->calls.end(),
      [](const auto& a, const auto& b) { return a.correlation < b.correlation; });
  if (first == trace->calls.end() || trace->session.context_bytes == 0)
    return;
  std::map<uint32_t, const TracedCall*> made_by;  // by context
  std::map<uint32_t, const TracedCall*> calls;
  for (const TracedCall& call : trace->calls)
    calls[call.correlation] = &call;
  const auto uses = [&](uint32_t context, uint32_t correlation) {
    const auto call = calls.find(correlation);
    const TracedCall* by = call == calls.end() ? &*first : call->second;
    const auto [maker, added] = made_by.try_emplace(context, by);
    if (!added && by->correlation < maker->second->correlation)
      maker->second = by;
  };
  for (const TracedWork& row : trace->work)
    uses(row.context, row.correlation);
  for (const TracedStream& row : trace->streams)
    uses(row.context, row.correlation);
  const auto bytes = static_cast<int64_t>(trace->session.context_bytes);
  bool is_first = true;
  for (const auto& [context, call] : made_by) {
    // The first one is there before anything that is traced; cudaSetDevice, which is
    // not, may have made it.
    int64_t time_ns = call->start_ns;
    if (is_first) {
      time_ns = first->start_ns;
      for (const TracedNcclCall& nccl : trace->nccl_calls)
        time_ns = std::min(time_ns, nccl.start_ns);
    }
    trace->reserves.push_back(
        {MemoryOwner::kContext, bytes, is_first ? 0 : call->correlation, time_ns});
    is_first = false;
  }
}

}  // namespace

absl::Status FinishSlice(const std::string& raw_path, const TraceSession& session,
                         std::optional<int64_t> clock_start_ns, const std::string& path,
                         const TraceWriteOptions& options) {
  ASSIGN_OR_RETURN(RankTrace trace, ReadTrace(raw_path));
  trace.session = session;
  MoveTimes(clock_start_ns, &trace);
  AddContextMemory(&trace);
  PutInOrder(&trace);
  return WriteTrace(path, trace, options);
}

}  // namespace vrank::graph
