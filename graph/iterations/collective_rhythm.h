// Iterations of a program of which only the communication is observed: on a real GPU
// kernels are not, so neither parameter updates nor periods of kernels are known.
//
// An iteration sums each gradient once. So the *large reductions* of one communicator
// (all-reduces and reduce-scatters, without those of losses, norms and flags) repeat
// from iteration to iteration in equal order and sizes, whatever else the program
// exchanges between them: a line of a log, an evaluation, a checkpoint, activations.
//
//   1. For each communicator, the sequence of sizes that leaves fewest of its large
//      reductions unexplained; of equally good ones the shortest. Sizes that come less
//      than three times are left out: they belong to no iteration.
//   2. The communicator of which least is unexplained says how many iterations there
//      are. A sequence of one size says nothing: layers repeat so as well.
//   3. If no communicator does, the whole sequence of communications is looked at in
//      the same way (pipelines without data parallelism).
//
// An iteration ends with its last large reduction. It begins where the one before ends;
// or, where much else is communicated in between, behind the last of that. So the
// length is that of a step in the steady state, though the update of the parameters,
// which follows the last reduction, counts to the next iteration. In the first
// iteration, DistributedDataParallel has other buckets, of the same bytes in all.
//
// What cannot be told apart: micro batches whose gradients are each reduced (FSDP
// without no_sync) are iterations here.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_ITERATIONS_COLLECTIVE_RHYTHM_H_
#define VRANK_GRAPH_ITERATIONS_COLLECTIVE_RHYTHM_H_

#include <cstdint>
#include <span>

#include "graph/iterations/iteration_finder.h"

namespace vrank::graph {

// Communications that are alike in all that names them.
struct CommunicationKind {
  uint32_t communicator = 0;
  bool reduces = false;
  uint64_t bytes = 0;
};

// `calls`: the communications of a rank in order, as indices into `kinds`. The spans
// are of calls. The host's time ahead of the first call of a span counts to it, from
// the call before on.
FoundIterations FindIterationsByCommunication(std::span<const uint32_t> calls,
                                              std::span<const CommunicationKind> kinds);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_ITERATIONS_COLLECTIVE_RHYTHM_H_
