// Traces read from and written to strings.

#ifndef VRANK_TESTS_GRAPH_TRACE_MEMORY_FILE_H_
#define VRANK_TESTS_GRAPH_TRACE_MEMORY_FILE_H_

#include <cstdio>
#include <string>

#include <absl/status/statusor.h>

#include "graph/trace/canonical_writer.h"
#include "graph/trace/trace_file.h"

namespace vrank::graph {

inline absl::StatusOr<RankTrace> ReadBytes(std::string bytes) {
  // fmemopen takes no empty buffer.
  FILE* file = bytes.empty() ? std::fopen("/dev/null", "rb")
                             : fmemopen(bytes.data(), bytes.size(), "rb");
  absl::StatusOr<RankTrace> trace = ReadTraceFrom(file, "t.vtrace");
  std::fclose(file);
  return trace;
}

inline std::string WriteBytes(const RankTrace& trace, bool compress = true) {
  std::string bytes;
  const absl::Status status = EncodeTrace(trace, compress, [&](std::string_view chunk) {
    bytes += chunk;
    return absl::OkStatus();
  });
  return status.ok() ? bytes : "";
}

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_TRACE_MEMORY_FILE_H_
