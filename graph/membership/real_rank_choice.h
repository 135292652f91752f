// Which ranks to run for real: one per class, chosen so that splits can be inferred.
//
// Rank 0 of every stage is the natural choice and the worst one: with all coordinates
// 0, colours and keys are 0 whatever a program groups by. Ranks that differ in every
// coordinate tell groupings apart.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MEMBERSHIP_REAL_RANK_CHOICE_H_
#define VRANK_GRAPH_MEMBERSHIP_REAL_RANK_CHOICE_H_

#include <cstdint>
#include <vector>

#include "graph/membership/layout.h"

namespace vrank::graph {

// How many more meanings than one the calls of `ranks` have, on average over all that
// programs may make them pass in splits of the world (split_hypothesis.h). 0: whatever
// a program groups by, by one of the known formulas, these ranks tell it.
double Ambiguity(const Layout& layout, const std::vector<int32_t>& ranks);

// One rank per class, ascending, and further ones where one per class cannot be told
// apart (layouts with a single stage, or very small dimensions). Of equally good
// choices, one that also tells splits that only the first and the last stage join.
std::vector<int32_t> SuggestRealRanks(const Layout& layout);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MEMBERSHIP_REAL_RANK_CHOICE_H_
