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
//   one left      it is the answer
//   several left  an error that names them, the rank whose call would decide, and the
//   flag
//                 that decides by hand
//   none left     an error with two calls that contradict each other, or that fit
//   nothing
//
// What this rests on: groups are groups of the declared layout (a program that splits a
// dimension further must declare both parts as dimensions), and members that were not
// seen compute colour and key by the same formula as those that were. Nothing is
// guessed beyond that.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_
#define VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/membership/group_hint.h"
#include "graph/membership/split_hypothesis.h"

namespace vrank::graph {

// A call that is known: member `member` of view `view` passed this colour and key.
struct SplitObservation {
  size_t view = 0;
  uint32_t member = 0;
  int32_t color = 0;
  int32_t key = 0;
};

// How a rank comes to have calls of its own: what a message tells people to do so that
// one more rank has them.
enum class CallSource {
  kReal,    // it runs: --real
  kTraced,  // a slice of it was traced
};
// "add rank 5 to --real", "trace rank 5, too". `which`: "rank 5", "one of ranks 1-3".
std::string AdviceToAdd(CallSource source, const std::string& which);

struct SplitQuestion {
  // views[0] is the parent. Followers whose leader is in a sister of the parent bring
  // that sister as a further view: what groups the one groups the other.
  std::vector<ParentView> views;
  std::vector<SplitObservation> observations;  // of members that join
  uint32_t number = 0;                         // of this split among the parent's
  std::optional<GroupHint> hint;               // decides which dimensions
  CallSource source = CallSource::kReal;       // of the calls, for messages
};

// Groups of the members that join, each in the child's order; groups by first member in
// the parent's order.
absl::StatusOr<std::vector<std::vector<uint32_t>>> InferSplit(
    const SplitQuestion& question);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_SPLIT_INFERENCE_H_
