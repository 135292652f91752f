// The losses of a graph, as a person reads them: one line per kind.
//
// Thread rule: pure function.

#ifndef VRANK_TOOLS_GRAPH_LOSSES_H_
#define VRANK_TOOLS_GRAPH_LOSSES_H_

#include <string>

#include "graph/replay/execution_graph.h"

namespace vrank::tools {

// "loss        NAME, 48 times on 16 ranks: MEANING"; empty where there is none.
std::string LossLines(const graph::ExecutionGraph& graph);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_GRAPH_LOSSES_H_
