// What an import makes of somebody else's recordings.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
#define VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_

#include <cstdint>
#include <map>
#include <vector>

#include "graph/import/clock_difference.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

// Highest totals of PyTorch's allocator; zero reserved bytes: none were recorded.
struct RecordedMemory {
  int64_t allocated_bytes = 0, reserved_bytes = 0;
};
struct RankMemory {
  RecordedMemory whole;
  std::vector<RecordedMemory> steps;  // by RecordedRank::iterations
};

struct ImportedRun {
  ExecutionGraph graph;
  uint64_t events = 0, bytes = 0;             // read, after decompression
  std::map<int32_t, ClockDifference> clocks;  // by rank, of those that differ
  std::map<int32_t, RankMemory> memory;       // by rank
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
