// How long the iterations of a replay take, and nothing else: for what is replayed a
// thousand times.
//
// Thread rule: functions of their arguments; the engine notes its place in a Program,
// so that one is read by one replay at a time.

#ifndef VRANK_GRAPH_WHAT_IF_ITERATION_TIMES_H_
#define VRANK_GRAPH_WHAT_IF_ITERATION_TIMES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/fold/job.h"
#include "graph/iterations/rank_iterations.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

// The iterations of a program, or one that spans it if it has none. `matches` selects
// the names of ranges that are iterations; empty: none is.
std::vector<IterationBounds> BoundsOf(
    const Program& program, const std::function<bool(const std::string&)>& matches);

// By iteration, the longest of any rank (graph/iterations/rank_iterations.h defines
// it). `bounds`: by place in ReplayJob::ranks; empty: the rank does not count.
absl::StatusOr<std::vector<int64_t>> ReplayIterationTimes(
    const ResolvedJob& job, const NetworkModel& network,
    const std::vector<const std::vector<IterationBounds>*>& bounds);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_WHAT_IF_ITERATION_TIMES_H_
