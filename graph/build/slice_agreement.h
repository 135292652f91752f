// Whether slices are of one job: each check is one clear error with both sides.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_BUILD_SLICE_AGREEMENT_H_
#define VRANK_GRAPH_BUILD_SLICE_AGREEMENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <absl/status/status.h>

#include "graph/program/program.h"
#include "graph/trace/rank_trace.h"

namespace vrank::graph {

// The first thing in which two slices are of different jobs: what it is, both sides as
// words, and what to do.
struct SessionDifference {
  std::string what, of_a, of_b, advice;
};
std::optional<SessionDifference> FindDifference(const TraceSession& a,
                                                const TraceSession& b);

// World size, layout, hints, GPU, code and command are the same; every rank is in the
// world and was traced once.
absl::Status CheckSlicesAgree(std::span<const RankTrace> slices);

// The first point at which the communication of two ranks of one class differs, in
// words; empty where it does not. Ranks of a class may differ in what is their own:
// host times, work (a rank that logs or saves), peers, roots, colours, keys and numbers
// of communicators.
// Looks at the first `end` ops of each.
std::string CommunicationDifference(const Program& a, const Program& b,
                                    uint64_t end_of_a = UINT64_MAX,
                                    uint64_t end_of_b = UINT64_MAX);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_BUILD_SLICE_AGREEMENT_H_
