// Device memory of a rank's CUDA contexts, which CUPTI does not show: rows of it are
// made from what is known of contexts and streams.
//
// Thread rule: free function without state.

#ifndef VRANK_GRAPH_TRACE_CONTEXT_MEMORY_H_
#define VRANK_GRAPH_TRACE_CONTEXT_MEMORY_H_

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Adds a reserve per context and stream that comes or goes: a context's own part
// (TraceSession.context_bytes), the code of the process's kernels, kStreamBytes
// (base/guest/context_memory.h). Nothing where the session says no size. REQUIRES: rows
// of contexts have their calls (JoinRows).
void AddContextMemory(RankTrace* trace);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_CONTEXT_MEMORY_H_
