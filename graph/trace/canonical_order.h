// Puts a trace into the order in which it is written: a function of what the program
// did, and not of which thread handed over its records first.
//
//   rows       by time or correlation (canonical_order.cc), ties by all that is left
//   threads    0, 1, ... by their first call, then by their first range
//   names      by their first use; those without one are dropped
//   ranges     ids 1, 2, ... by their beginning
//   addresses  device memory: from the lowest one, so that ranges keep their overlaps;
//              host memory: the allocation's number, which its release has, too
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_CANONICAL_ORDER_H_
#define VRANK_GRAPH_TRACE_CANONICAL_ORDER_H_

#include <cstdint>
#include <optional>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// A trace that is in order stays as it is.
void PutInOrder(RankTrace* trace);

// Moves all times so that `origin_ns` becomes 0, or the earliest of them where no
// origin is known: CUPTI's clock shows the date. Times that CUPTI does not know are 0,
// and stay.
void MoveTimes(std::optional<int64_t> origin_ns, RankTrace* trace);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_CANONICAL_ORDER_H_
