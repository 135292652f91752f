// Which program each rank of a graph plays: its own if it was traced, else that of the
// lowest traced rank of its class.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_CLASS_CAST_H_
#define VRANK_GRAPH_BUILD_CLASS_CAST_H_

#include <vector>

#include "graph/build/trial.h"
#include "graph/membership/layout.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

// Fills in `graph`'s classes and ranks; the i-th traced rank's program is the graph's
// i-th. REQUIRES: every class has a traced rank.
void CastRanks(const Layout& layout, const std::vector<TracedProgram>& traced,
               ExecutionGraph* graph);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_CLASS_CAST_H_
