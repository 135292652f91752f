// Slices of a job become its execution graph.
//
// Every slice shows one rank. What the job is follows from all of them together, and is
// verified against all of them:
//   1. The slices are of one job: world size, layout, GPU, code, command are the same.
//   2. The layout is the stated one, or the one (found among tp, cp, dp and pp) under
//      which every communicator of every slice has the size and the place that the
//      slice was told. Two layouts that mean different things and fit alike are an
//      error that names the rank whose slice would decide.
//   3. Every class has a slice; its other ranks follow one of those (leader.h).
//   4. The job is played once. What does not fit together is an error with both sides:
//      collectives that not all join or that differ, sends without a receive, a cycle.
// A wait for a rank that was not traced needs no rule: programs hold costs and no
// times, so what such a wait lasts comes out of the replay.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_BUILD_GRAPH_BUILDER_H_
#define VRANK_GRAPH_BUILD_GRAPH_BUILDER_H_

#include <span>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/file/kernel_table.h"
#include "graph/program/execution_graph.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

struct GraphBuildOptions {
  std::string layout;                    // empty: as the slices state it, or inferred
  std::vector<std::string> group_hints;  // added to those of the slices
  // Times that launches take in place of those in the slices; may be nullptr. Of the
  // slices' GPU.
  const KernelTable* kernel_times = nullptr;
};

absl::StatusOr<ExecutionGraph> BuildGraph(std::span<const RankTrace> slices,
                                          const GraphBuildOptions& options = {});

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_GRAPH_BUILDER_H_
