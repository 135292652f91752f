// Reads PyTorch's execution traces (ExecutionTraceObserver, "et.json"), of which an
// import takes what profilers before PyTorch 2.4 do not say about collectives: which
// operation it was, of how many elements, in which process group.
//
// Read as a stream, as kineto_reader.h.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_IMPORT_EXECUTION_TRACE_H_
#define VRANK_GRAPH_IMPORT_EXECUTION_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/import/recording.h"

namespace vrank::graph {

struct TracedCommunication {
  int64_t id = 0;         // of its record function: ascends with time
  std::string operation;  // "all_to_allv"
  int64_t group = -1;     // an address: tells groups of one process apart
  int64_t elements = -1;
  int64_t element_bytes = -1;
};

struct ExecutionTrace {
  std::string file;
  int64_t pid = -1;
  std::vector<TracedCommunication> communications;  // by id; without waits
};

absl::StatusOr<ExecutionTrace> ReadExecutionTrace(const std::string& path);

// Fills in what `recording` does not say about its collectives. An error where the two
// do not show the same ones.
absl::Status JoinExecutionTrace(const ExecutionTrace& trace, Recording* recording);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_EXECUTION_TRACE_H_
