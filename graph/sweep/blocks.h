// The blocks of a sweep (block.h): which ranks are in which, at which lanes, and their
// memory. How they meet is not known yet.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SWEEP_BLOCKS_H_
#define VRANK_GRAPH_SWEEP_BLOCKS_H_

#include <cstdint>

#include <absl/status/status.h>

#include "graph/sweep/layout.h"

namespace vrank::graph {

// `layout` has its ledgers and its unit; it gets codes, keys, blocks, seats and bytes.
// ResourceExhausted: more memory than allowed, with the amount.
absl::Status MakeBlocks(const ResolvedJob& job, const SweepOptions& options,
                        SweepLayout* layout);

// Of the rank at a place in the job; nullptr: it is no member.
const CommunicatorBinding* BindingOf(const ResolvedJob& job, uint32_t rank,
                                     uint32_t number);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_BLOCKS_H_
