// Reads and writes .vtrace files (base/guest/trace_format.h).
//
// A raw file, as the tracer leaves it, depends on the timing of threads and knows
// nothing of the session. FinishSlice turns it into a canonical one, whose bytes are a
// function of what the program did: rows in a fixed order, threads and names numbered
// by their first appearance, and no process ids or host addresses. On a real GPU, times
// start at zero (canonical_order.h).
//
// Reading either gives the same rows: what a raw file leaves apart is joined on the
// way.
//
// Errors name the file, the offset in it, what is wrong, and what to do:
//   NotFound            there is no such file
//   InvalidArgument     it is no .vtrace file
//   Unimplemented       a newer vrank wrote it
//   DataLoss            it is empty, damaged, or cut off. Only a raw file may be cut
//   off
//                       (its program was killed): then what is whole is read, and
//                       RankTrace::complete is false.
// Kinds of records that this build does not know are skipped and counted.
//
// Memory: a chunk at a time, besides the rows.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_TRACE_FILE_H_
#define VRANK_GRAPH_TRACE_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

absl::StatusOr<RankTrace> ReadTrace(const std::string& path);
// The same from an open file; `name` is for messages and RankTrace::file.
absl::StatusOr<RankTrace> ReadTraceFrom(FILE* file, const std::string& name);

// What the session that recorded a slice knows: reads the first chunk of a canonical
// file. InvalidArgument where it is a raw one.
absl::StatusOr<TraceSession> ReadSession(const std::string& path);

struct TraceWriteOptions {
  bool compress = true;  // zstd, chunk by chunk
};

// Writes a canonical file: under another name first, so that `path` is whole or not
// there. Equal traces give equal bytes.
// REQUIRES: the rows are in canonical order, as ReadTrace leaves them.
absl::Status WriteTrace(const std::string& path, const RankTrace& trace,
                        const TraceWriteOptions& options = {});

// The slice of one rank: what the tracer wrote to `raw_path`, and what the session
// knows, as a canonical file at `path`. The raw file is left alone. DataLoss where it
// has no end, or another user of CUPTI got its records.
//
// `clock_start_ns`: what CUPTI's clock showed when the rank started, which becomes time
// 0. Under emulation that is protocol::Settings::realtime_at_start_ns, and host time
// before the first call stays part of the program; nullopt, on a real GPU: the first
// time in the trace. `host_times`: RankTrace's, which no raw file has.
absl::Status FinishSlice(const std::string& raw_path, const TraceSession& session,
                         std::optional<int64_t> clock_start_ns,
                         std::vector<TracedHostTime> host_times,
                         const std::string& path,
                         const TraceWriteOptions& options = {});

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_TRACE_FILE_H_
