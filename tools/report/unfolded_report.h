// A replay of every rank (replay/unfolded_replay.h) in words, as JSON, and as a table
// of its ranks.
//
// There is no critical path here: it would need what came before what of every op of
// every rank. The ledger is that of the rank that ends last, over the whole run.
//
// Thread rule: pure functions, but for the file.

#ifndef VRANK_TOOLS_REPORT_UNFOLDED_REPORT_H_
#define VRANK_TOOLS_REPORT_UNFOLDED_REPORT_H_

#include <string>

#include <absl/status/status.h>

#include "graph/program/execution_graph.h"
#include "tools/machine/output_file.h"
#include "tools/replay/graph_replay.h"
#include "tools/replay/unfolded_replay.h"

namespace vrank::tools {

// The text, or the JSON, ends with a line break.
std::string UnfoldedText(const graph::ExecutionGraph& graph,
                         const UnfoldedReplay& played,
                         const GraphReplayOptions& options);
// Schema "vrank.replay_jitter/1", docs/json.md.
std::string UnfoldedJson(const graph::ExecutionGraph& graph,
                         const UnfoldedReplay& played,
                         const GraphReplayOptions& options);

// Every number of every rank, so that two replays can be compared to the byte.
absl::Status WriteRankTable(const OutputFile& output,
                            const graph::ExecutionGraph& graph,
                            const UnfoldedReplay& played);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPORT_UNFOLDED_REPORT_H_
