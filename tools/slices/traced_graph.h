// The execution graph of a job, made on the way: slices are traced, a graph is built
// and written, and opened again. What `vrank trace`, `build` and a later command do, in
// one go and with nothing left behind.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_SLICES_TRACED_GRAPH_H_
#define VRANK_TOOLS_SLICES_TRACED_GRAPH_H_

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"
#include "tools/job/job.h"
#include "tools/job/rank_output.h"

namespace vrank::tools {

struct TracedGraph {
  graph::ExecutionGraph graph;
  std::vector<int32_t> traced;  // the ranks of its slices, one slice each
  uint64_t slice_bytes = 0, graph_bytes = 0;
};

// Traces these ranks, one at a time: at least what graph::PlanRanks names. Files go to
// a folder of their own under TMPDIR, which is gone afterwards; the graph stays mapped.
absl::StatusOr<TracedGraph> TraceAndBuild(const Job& job,
                                          const std::vector<int32_t>& ranks,
                                          RankOutput* output);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_SLICES_TRACED_GRAPH_H_
