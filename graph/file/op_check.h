// Whether ops from a file can be trusted: one pass, before the engine sees them.
//
// What the executors rely on is checked here and in graph_meta.cc, so that they need no
// checks of their own: a graph that passes has times, or an error that names its ranks.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_FILE_OP_CHECK_H_
#define VRANK_GRAPH_FILE_OP_CHECK_H_

#include <cstdint>
#include <span>

#include <absl/status/statusor.h>

#include "graph/schema/op.h"

namespace vrank::graph {

// 36 years: of one cost, and of one program.
inline constexpr int64_t kMaxNs = int64_t{1} << 60;
// 73 years, of all ranks together: however they wait for each other, no end is later,
// but for what the network model adds.
inline constexpr int64_t kMaxRankNs = int64_t{1} << 61;
// Bytes of a transfer, elements of a collective: 2^50.
inline constexpr uint64_t kMaxTransferBytes = uint64_t{1} << 50;

// Kinds, sources, flags and numbers are in their ranges, and every index is one of
// `details`. Numbers of lanes and tokens are dense, since executors keep arrays by
// them. Communicators are created before they are used, and used before they are
// released. Returns the sum of the costs, recorded times of collectives included.
absl::StatusOr<int64_t> CheckOps(std::span<const Op> ops, const Details& details);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FILE_OP_CHECK_H_
