// The layout of a graph's job, as reports state it.
//
// Thread rule: pure function.

#ifndef VRANK_TOOLS_LAYOUT_TEXT_H_
#define VRANK_TOOLS_LAYOUT_TEXT_H_

#include <string>

#include "graph/program/execution_graph.h"

namespace vrank::tools {

// "unknown" of an import, which records groups and no layout.
inline std::string LayoutText(const graph::ExecutionGraph& graph) {
  return graph.recorded_ranks.empty() ? graph.layout : "unknown";
}

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_LAYOUT_TEXT_H_
