// Communicators, roots, peers and shares of one rank's program, rewritten for another
// number of replicas or stages (scale_graph.h).
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_
#define VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <absl/status/statusor.h>

#include "base/guest/communicator_memory.h"
#include "graph/program/program.h"
#include "graph/scale/resizing.h"

namespace vrank::graph {

// How much of a program is the other size's, and how much is assumed.
struct ScaleCounts {
  uint64_t sharded = 0;  // collectives whose share of a member changed
  uint64_t kept = 0;     // those that might have one, and were taken to have none
};

// World ranks of a rank's communicators, in order, by its own numbers; those of splits
// that left it out are missing.
using MembersByNumber = std::map<uint32_t, std::vector<int32_t>>;

// The program of `rank` as that of the rank that it becomes. `memory`: what NCCL takes
// for a communicator; where the program's communicators took something else, that was
// measured, and is kept.
absl::StatusOr<std::unique_ptr<Program>> ScaleProgram(const Resizing& resizing,
                                                      int32_t rank, int32_t becomes,
                                                      const Program& program,
                                                      const MembersByNumber& members,
                                                      const CommunicatorMemory& memory,
                                                      ScaleCounts* counts);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SCALE_PROGRAM_SCALER_H_
