// TraceSession as the bytes of a SessionProto, and back.
//
// Thread rule: free functions without state.

#ifndef VRANK_GRAPH_TRACE_SESSION_PROTO_H_
#define VRANK_GRAPH_TRACE_SESSION_PROTO_H_

#include <string>
#include <string_view>

#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// Equal sessions give equal bytes.
std::string SerializeSession(const TraceSession& session);
// False if `bytes` are no SessionProto.
bool ParseSession(std::string_view bytes, TraceSession* session);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_TRACE_SESSION_PROTO_H_
