// What an import makes of somebody else's recordings.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
#define VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_

#include <cstdint>

#include "graph/replay/execution_graph.h"

namespace vrank::graph {

struct ImportedRun {
  ExecutionGraph graph;
  uint64_t events = 0, bytes = 0;  // read, after decompression
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_IMPORT_IMPORTED_RUN_H_
