// A replay in which no two ranks are alike, because their work has jitter or because
// they share links, in words and as JSON: how long iterations take on the fastest and
// on the slowest rank, what ranks do meanwhile, and which links slowed them down. It
// can be had of any job, by any executor: all must say the same.
//
// There is no critical path here: it would need what came before what of every op of
// every rank. The ledger is that of the rank that ends last, over the whole run.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_UNFOLDED_REPORT_H_
#define VRANK_TOOLS_UNFOLDED_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "graph/sweep/replay_every_rank.h"
#include "tools/graph_replay.h"

namespace vrank::tools {

struct UnfoldedOptions {
  graph::ReplayExecutor executor = graph::ReplayExecutor::kFastest;
  uint32_t threads = 0;  // SweepOptions
  std::optional<graph::VectorUnit> unit;
  std::string rank_table;  // file; empty: none
  bool json = false;
};

// Plays every rank of `graph`, with options.jitter and options.contention. The text, or
// the JSON, ends with a line break.
absl::StatusOr<std::string> ReplayUnfolded(const graph::ExecutionGraph& graph,
                                           const Installation& installation,
                                           const GraphReplayOptions& options,
                                           const UnfoldedOptions& unfolded);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_UNFOLDED_REPORT_H_
