// The bytes of a canonical file.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_CANONICAL_WRITER_H_
#define VRANK_GRAPH_TRACE_CANONICAL_WRITER_H_

#include <functional>
#include <string_view>

#include <absl/status/status.h>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Calls `put` with the file's chunks, one after the other, until it fails.
// REQUIRES: every name's index is within trace.names.
absl::Status EncodeTrace(const RankTrace& trace, bool compress,
                         const std::function<absl::Status(std::string_view)>& put);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_CANONICAL_WRITER_H_
