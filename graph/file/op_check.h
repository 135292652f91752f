// Whether an op from a file can be trusted: one pass, before the engine sees it.
//
// Thread rule: pure function.

#ifndef VRANK_GRAPH_FILE_OP_CHECK_H_
#define VRANK_GRAPH_FILE_OP_CHECK_H_

#include <span>

#include <absl/status/status.h>

#include "graph/schema/op.h"

namespace vrank::graph {

// Kinds, sources and numbers are in their ranges, and every index is one of `details`.
absl::Status CheckOps(std::span<const Op> ops, const Details& details);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FILE_OP_CHECK_H_
