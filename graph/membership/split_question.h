// A split of which some calls are known: what its groups have to explain.
//
// Thread rule: pure functions; views remember what they computed, so one thread.

#ifndef VRANK_GRAPH_MEMBERSHIP_SPLIT_QUESTION_H_
#define VRANK_GRAPH_MEMBERSHIP_SPLIT_QUESTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
  kSlice,   // it runs, and vrank chose it: as in a slice that is being traced
};
// "add rank 5 to --real", "trace rank 5, too", "correct --layout". `which`: "rank 5",
// "one of ranks 1-3".
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

// The functions below take the question's views, or the same under another layout.

// The first pair of calls in one view that groups by `dimensions` do not explain: one
// colour in two groups, or two colours in one.
std::optional<std::pair<SplitObservation, SplitObservation>> FindContradiction(
    const std::vector<ParentView>& views,
    const std::vector<SplitObservation>& observations, DimensionSet dimensions);

// Those of `formulas` that predict the colour of every call.
std::vector<ColorFormula> MatchingColors(
    const std::vector<ParentView>& views,
    const std::vector<SplitObservation>& observations, DimensionSet dimensions,
    std::vector<ColorFormula> formulas);
// All key formulas that predict the key of every call; constants are among them.
std::vector<KeyFormula> MatchingKeys(const std::vector<ParentView>& views,
                                     const std::vector<SplitObservation>& observations,
                                     DimensionSet dimensions);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_SPLIT_QUESTION_H_
