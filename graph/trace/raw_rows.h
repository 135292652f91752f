// The rows of a raw trace: a RankTrace and what has not been joined to it yet.
//
// In `trace`, threads are numbered as CUPTI and the system do, names are raw numbers
// looked up in `names`, and the correlation of an operation is unknown.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_TRACE_RAW_ROWS_H_
#define VRANK_GRAPH_TRACE_RAW_ROWS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

struct RawRows {
  RankTrace trace;
  std::unordered_map<uint32_t, std::string> names;
  uint32_t highest_name = 0;  // that calls, work and ranges use
  // By operation id: the correlation ids that were pushed with it.
  std::unordered_map<uint64_t, std::vector<uint32_t>> external_ids;
  // Of trace.operations, in step.
  std::vector<uint64_t> operation_ids;
  std::vector<uint32_t> operation_threads;
  // Names of communicators: index in trace.nccl_calls, and the name's number.
  struct CreationName {
    uint32_t call = 0, name = 0;
  };
  std::vector<CreationName> creation_names;
  struct PoolSize {
    uint64_t address = 0, bytes = 0;
    uint32_t correlation = 0;
    int64_t time_ns = 0;
  };
  std::vector<PoolSize> pools;
  std::vector<uint32_t> context_threads;  // of trace.contexts, in step
  bool canonical = false;                 // the file was
  bool ended = false;                     // has an end
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_RAW_ROWS_H_
