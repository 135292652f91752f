// The same job with more or fewer data-parallel replicas or pipeline stages, by
// rewriting its graph.
//
// Replicas do the same, so their number shows in few places: who belongs to a
// communicator that spans the dimension, the places of roots and peers there, and how
// much a rank holds of what is sharded over it. The rest is the traced size's. Stages
// in the middle do the same more or less often (pipeline_scaler.h).
//
//   Communicators  groups of the same dimensions of the new layout; those of the first
//                  and the last stage hold the new pipeline's
//   Their memory   by the cluster description, where that says what was taken
//   Colours, keys  the group's coordinates as one number, and the place in the group:
//                  what a program that numbers its groups by the layout would pass
//   Sharded        a reduce-scatter's, an all-to-all's share of a member; an
//                  all-gather's, a gather's, a scatter's, where the communicator has a
//                  reduce-scatter, too (ZeRO, FSDP, a distributed optimizer). The whole
//                  stays as large, so the share changes, rounded up. Other operations
//                  keep their sizes.
//   Kept           work, host time and the program's memory, also of what is sharded,
//                  and how many micro-batches a rank has: the global batch grows with
//                  the replicas, the model with the stages
//
// What is assumed in that stands in the graph's losses, each with a count, so that a
// replay's report shows it.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_SCALE_SCALE_GRAPH_H_
#define VRANK_GRAPH_SCALE_SCALE_GRAPH_H_

#include <vector>

#include <absl/status/statusor.h>

#include "base/guest/communicator_memory.h"
#include "graph/fold/job.h"
#include "graph/membership/group_hint.h"
#include "graph/membership/layout.h"
#include "graph/program/execution_graph.h"

namespace vrank::graph {

// `job`: the graph's communicators, resolved. `hints`: what its creations group; under
// its layout. `memory`: of the graph's cluster. `to`: the same dimensions in the same
// order, of which dp or pp has another size, above 1. Errors: another dimension
// changes; a program that names a particular replica or stage as peer or root, or
// groups ranks in another order than the layout's; a schedule that does not depend on
// the stage as pipeline_scaler.h has it; a graph that was imported.
absl::StatusOr<ExecutionGraph> ScaleGraph(const ExecutionGraph& graph,
                                          const ResolvedJob& job,
                                          const std::vector<GroupHint>& hints,
                                          const CommunicatorMemory& memory,
                                          const Layout& to);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_SCALE_GRAPH_H_
