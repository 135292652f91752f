// Who plays which rank where an execution graph is at hand.
//
// Ranks of a class with a real rank follow that one live, so that a change in the code
// under test shows in all its peers; the others play what was recorded. So does a class
// of which every rank was traced and not all did the same (routed experts): there
// nobody is another one's peer.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_GRAPH_CAST_H_
#define VRANK_TOOLS_GRAPH_CAST_H_

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "emulator/session/cast.h"
#include "graph/membership/group_hint.h"
#include "graph/program/execution_graph.h"

namespace vrank::tools {

// All ranks that are not real, ascending. Programs stay the graph's.
std::vector<emulator::VirtualRank> CastByGraph(const graph::ExecutionGraph& graph,
                                               std::span<const int32_t> real);

// What the graph knows of the job's communicators, as hints: which dimensions each init
// and each split groups. Followers of a real rank have no calls of their own, and its
// calls alone need not tell; those of all slices together did.
absl::StatusOr<std::vector<graph::GroupHint>> HintsOf(
    const graph::ExecutionGraph& graph);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_GRAPH_CAST_H_
