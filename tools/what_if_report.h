// What-ifs of a graph (graph/what_if): their effect on the iteration in words and as
// JSON, and the table of what each part of the job would bring.
//
// Thread rule: one thread calls; the table starts its own.

#ifndef VRANK_TOOLS_WHAT_IF_REPORT_H_
#define VRANK_TOOLS_WHAT_IF_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "graph/what_if/edited_job.h"
#include "tools/graph_replay.h"

namespace vrank::tools {

// Of one iteration, the longest of any rank.
struct WhatIfOutcome {
  std::vector<graph::WhatIf> edits;
  std::vector<graph::EditedNodes> nodes;  // by edit
  size_t iteration = 0;
  int64_t before_ns = 0, after_ns = 0;
};

absl::StatusOr<std::vector<graph::WhatIf>> ParseWhatIfs(
    const std::vector<std::string>& flags);

// By iteration, the longest of any rank, without options.what_ifs.
absl::StatusOr<std::vector<int64_t>> IterationTimesBefore(
    const graph::ExecutionGraph& graph, const Installation& installation,
    const GraphReplayOptions& options);

std::string WhatIfText(const WhatIfOutcome& outcome);
nlohmann::ordered_json WhatIfJson(const WhatIfOutcome& outcome);

struct WhatIfTableOptions {
  int32_t iteration = -1;  // -1: the last one
  uint32_t threads = 0;    // 0: as many as the machine has
  bool json = false;
  std::function<void(const std::string&)> progress;
};
// What the iteration would be if one part of the job took no time, and if it took half:
// a row per part, the largest gain first. options.what_ifs apply to all of them. The
// text, or the JSON, ends with a line break.
absl::StatusOr<std::string> WhatIfTable(const graph::ExecutionGraph& graph,
                                        const Installation& installation,
                                        const GraphReplayOptions& options,
                                        const WhatIfTableOptions& table);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_WHAT_IF_REPORT_H_
