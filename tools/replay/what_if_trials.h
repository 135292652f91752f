// What-ifs of a graph (graph/what_if): the iteration times that follow from an edit,
// and from every edit that a table has a row for.
//
// Thread rule: one thread calls; the trials start their own.

#ifndef VRANK_TOOLS_REPLAY_WHAT_IF_TRIALS_H_
#define VRANK_TOOLS_REPLAY_WHAT_IF_TRIALS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/what_if/edited_job.h"
#include "tools/replay/graph_replay.h"

namespace vrank::tools {

// Of one iteration, the longest of any rank.
struct WhatIfOutcome {
  std::vector<graph::WhatIf> edits;
  std::vector<graph::EditedNodes> nodes;  // by edit
  size_t iteration = 0;
  int64_t before_ns = 0, after_ns = 0;
  // The mean of all iterations but the first; 0: there are not several of them. A
  // single one also changes by what the one before leaves it to wait for.
  int64_t mean_before_ns = 0, mean_after_ns = 0;
};

// Of all but the first; 0 for fewer than two others.
int64_t MeanOfLater(const std::vector<int64_t>& iterations);

absl::StatusOr<std::vector<graph::WhatIf>> ParseWhatIfs(
    const std::vector<std::string>& flags);

// By iteration, the longest of any rank, without options.what_ifs.
absl::StatusOr<std::vector<int64_t>> IterationTimesBefore(
    const graph::ExecutionGraph& graph, const Installation& installation,
    const GraphReplayOptions& options);

// One part of the job taken away, and halved.
struct WhatIfTrial {
  graph::WhatIf edit;
  graph::EditedNodes nodes;
  std::vector<int64_t> free_ns, half_ns;  // by iteration; half_ns may be empty
};

struct WhatIfTrials {
  std::string cluster;
  // The job as it is: options.what_ifs, and what one iteration takes with them.
  std::vector<graph::WhatIf> edits;
  std::vector<graph::EditedNodes> nodes;  // by edit
  size_t iteration = 0;
  int64_t ns = 0;
  std::vector<WhatIfTrial> rows;  // the largest gain first
};

struct WhatIfTrialOptions {
  int32_t iteration = -1;  // -1: the last one
  uint32_t threads = 0;    // 0: as many as the machine has
  std::function<void(const std::string&)> progress;
};
// What the iteration would be if one part of the job took no time, and if it took half:
// a row per part. options.what_ifs apply to all of them.
absl::StatusOr<WhatIfTrials> TryWhatIfs(const graph::ExecutionGraph& graph,
                                        const Installation& installation,
                                        const GraphReplayOptions& options,
                                        const WhatIfTrialOptions& trial_options);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_WHAT_IF_TRIALS_H_
