// A replay in which no two ranks are alike, in words and as JSON: how long iterations
// take on the fastest and on the slowest rank, and what ranks do meanwhile.
//
// There is no critical path here: it would need what came before what of every op of
// every rank. The ledger is that of the rank that ends last, over the whole run.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JITTER_REPORT_H_
#define VRANK_TOOLS_JITTER_REPORT_H_

#include <string>

#include <absl/status/statusor.h>

#include "tools/graph_replay.h"

namespace vrank::tools {

// Plays `graph` with options.jitter. The text, or the JSON, ends with a line break.
absl::StatusOr<std::string> ReplayWithJitter(const graph::ExecutionGraph& graph,
                                             const Installation& installation,
                                             const GraphReplayOptions& options,
                                             bool json);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JITTER_REPORT_H_
