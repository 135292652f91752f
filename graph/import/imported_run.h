// What an import makes of somebody else's recordings.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
#define VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_

#include <cstdint>
#include <map>

#include "graph/import/clock_difference.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

struct ImportedRun {
  ExecutionGraph graph;
  uint64_t events = 0, bytes = 0;             // read, after decompression
  std::map<int32_t, ClockDifference> clocks;  // by rank, of those that differ
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
