// Joins what a raw trace leaves apart.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_ROW_JOINER_H_
#define VRANK_GRAPH_TRACE_ROW_JOINER_H_

#include <cstdint>

#include <absl/status/status.h>

#include "graph/trace/raw_rows.h"

namespace vrank::graph {

// Replaces numbers of names by indices into trace.names. A number that no record
// defines is index 0 in a raw trace, whose writer may have lost the definition;
// otherwise it is DataLoss.
absl::Status ResolveNames(RawRows* rows);

// Of a raw trace, with its names resolved:
//   calls       A driver call that the runtime makes inside a call of its own is
//               dropped; what was joined to it belongs to the outer call.
//   operations  Get the correlation of their launch, by the external id that was pushed
//               around it, and the stream that their kernel ran in.
//   pools       Sizes become differences: TracedReserve.
//   ranges      An end gets its begin's name.
//   threads     NCCL's callers, as the system numbers them, become CUPTI's threads: by
//               their operations' launches, else the thread that called last.
void JoinRows(RawRows* rows);

// Calls `visit(uint32_t* name)` for every name in the rows, in the order of the file.
template <typename Visit>
void ForEachName(RankTrace* trace, Visit visit) {
  for (TracedCall& call : trace->calls)
    visit(&call.function);
  for (TracedWork& work : trace->work)
    visit(&work.name);
  for (TracedRange& range : trace->ranges)
    visit(&range.name);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_ROW_JOINER_H_
