// Infers the groups of a split from the calls of a few members, or says what is
// missing.
//
// Candidates are the groups of the layout: every set of dimensions, the empty one
// included. A candidate survives if every two members whose calls are known share a
// colour exactly if it puts them into one group. If several survive, or one survives
// that groups by more than was seen, those count for which some colour formula and some
// key formula predict every known call exactly (split_hypothesis.h). Different
// candidates with the same groups in the same order are one.
//
//   one left      it is the answer, unless groups of another layout explain the calls
//                 as well (partial_groups.h): then the layout is not told yet
//   several left  an error that names them, the rank whose call would decide, and the
//                 flag that decides by hand
//                 A colour that is a hash of the member list (member_hash.h) tells its
//                 group from one call, of any layout where none was stated
//   none left     an error with two calls that contradict each other, or that fit
//                 nothing, or with the groups of another layout that they fit
//
// What this rests on: groups are groups of a layout, a program that splits a stated
// dimension further has to state both parts as dimensions, and members that were not
// seen compute colour and key by the same formula as those that were. Nothing is
// guessed beyond that.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_
#define VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_

#include <cstdint>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/split_question.h"

namespace vrank::graph {

// Groups of the members that join, each in the child's order; groups by first member in
// the parent's order.
absl::StatusOr<std::vector<std::vector<uint32_t>>> InferSplit(
    const SplitQuestion& question);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_
