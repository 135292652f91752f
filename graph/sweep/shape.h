// Codes that differ in costs alone, or also in what they work between the same other
// ops.
//
// Ranks that were traced one by one have programs of their own, which mostly do the
// same at other costs: they have one shape. Some launch a kernel more than others, but
// meet, record and wait alike: they have one skeleton. Such ranks run in lock step,
// too, in a code that has the works of all of them. Each has its own row of costs
// (SweepLanes::own), which also says what it does not do.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_SWEEP_SHAPE_H_
#define VRANK_GRAPH_SWEEP_SHAPE_H_

#include <cstdint>
#include <span>

#include "graph/sweep/code.h"
#include "graph/sweep/cost_rows.h"

namespace vrank::graph {

// Whether all but issue, durations and their ledgers is equal, calls and transfers
// included.
bool HaveOneShape(const SweepCode& a, const SweepCode& b);
// Equal for codes of one shape.
uint64_t ShapeDigest(const SweepCode& code);

// Whether all but works, issue, durations and their ledgers is equal, calls and
// transfers included.
bool HaveOneSkeleton(const SweepCode& a, const SweepCode& b);
// Equal for codes of one skeleton.
uint64_t SkeletonDigest(const SweepCode& code);

// Whose works are those of all codes, without costs; the rest is the first one's.
// REQUIRES: the codes have one skeleton and store no ends.
SweepCode AlignedCode(std::span<const SweepCode* const> codes);

// The rows of SweepLanes::own for `width` ranks, of which the first have `codes` and
// all run `common`: AlignedCode of them, or one of them where they have one shape.
// REQUIRES: ledgers: LedgerSet::count().
CostRows OwnCosts(const SweepCode& common, std::span<const SweepCode* const> codes,
                  uint32_t width, uint32_t ledgers);

// Gives back what nobody reads of a code whose ranks run in a block with another one.
void KeepResultsOnly(SweepCode* code);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_SHAPE_H_
