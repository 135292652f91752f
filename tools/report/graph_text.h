// Facts of a graph as every report of it states them.
//
// Thread rule: pure functions.

#ifndef VRANK_TOOLS_REPORT_GRAPH_TEXT_H_
#define VRANK_TOOLS_REPORT_GRAPH_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "graph/program/execution_graph.h"

namespace vrank::tools {

// "1 rank from the graph alone", "1,024 ranks from the graph alone".
std::string RanksText(const graph::ExecutionGraph& graph);

// The layout of the job; "unknown" of an import, which records groups and no layout.
std::string LayoutText(const graph::ExecutionGraph& graph);

// A line about ranks that were left out of the recordings that were imported; empty
// where none is.
std::string AbsentRanksLine(const graph::ExecutionGraph& graph);

// What the graph lost when it was made: "loss        NAME, 48 times on 16 ranks:
// MEANING"; empty where there is none.
std::string LossLines(const graph::ExecutionGraph& graph);

// "11.90 GiB", "unknown" (KnownPeak).
std::string PeakMemoryText(const std::optional<int64_t>& bytes);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_GRAPH_TEXT_H_
