// Codes that differ in costs alone.
//
// Ranks that were traced one by one have programs of their own, which mostly do the
// same at other costs. Such ranks run in lock step, each with its own row of costs
// (SweepLanes::own).
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_SWEEP_SHAPE_H_
#define VRANK_GRAPH_SWEEP_SHAPE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "graph/sweep/code.h"

namespace vrank::graph {

// Whether all but issue, durations and their ledgers is equal, calls and transfers
// included.
bool HaveOneShape(const SweepCode& a, const SweepCode& b);
// Equal for codes of one shape.
uint64_t ShapeDigest(const SweepCode& code);

// The rows of SweepLanes::own for `width` ranks, of which the first have `codes`.
// REQUIRES: the codes have one shape; ledgers: LedgerSet::count().
std::vector<uint32_t> OwnCosts(std::span<const SweepCode* const> codes, uint32_t width,
                               uint32_t ledgers);

// Gives back what nobody reads of a code whose ranks run in a block with another one.
void KeepResultsOnly(SweepCode* code);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_SHAPE_H_
