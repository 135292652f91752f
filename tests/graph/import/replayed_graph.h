// Replays an imported graph, and changes one.
//
// Thread rule: pure functions.

#ifndef VRANK_TESTS_GRAPH_IMPORT_REPLAYED_GRAPH_H_
#define VRANK_TESTS_GRAPH_IMPORT_REPLAYED_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"

namespace vrank::graph {

// The part of graph/analysis' Breakdown that tests look at.
struct ReplayedParts {
  int64_t compute_ns = 0, host_bound_ns = 0, unexplained_ns = 0;
  std::map<std::string, int64_t> exposed_ns, overlapped_ns;
};

struct ReplayedRank {
  std::vector<int64_t> ends_ns;  // of kWork and kCollective ops, as RecordedRank's
  std::vector<bool> is_collective;
  std::vector<std::string> names;      // of the work; empty for collectives
  std::vector<int64_t> iterations_ns;  // lengths, as RecordedRank's
  ReplayedParts parts;                 // of the last iteration
};

// By rank, of those that were recorded.
absl::StatusOr<std::map<int32_t, ReplayedRank>> ReplayImported(
    const ExecutionGraph& graph);

// The `nth` piece of work of a rank takes `more_ns` longer from now on.
void Lengthen(int32_t rank, size_t nth, int64_t more_ns, ExecutionGraph* graph);

}  // namespace vrank::graph

#endif  // VRANK_TESTS_GRAPH_IMPORT_REPLAYED_GRAPH_H_
