// What a program does whatever the times turn out to be.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_REPLAY_PROGRAM_FACTS_H_
#define VRANK_GRAPH_REPLAY_PROGRAM_FACTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/replay/engine.h"

namespace vrank::graph {

// Memory and ops of a virtual rank that has played the program; no times.
RankResult FixedResult(const Program& program);

// By op that records a token: the last op that uses that recording; kNone: none does.
std::vector<uint32_t> LastUses(const Program& program);

// By op: whether a range that `observe` wants begins or ends there. Empty: none.
std::vector<bool> ObservedRanges(
    const Program& program, const std::function<bool(const std::string&)>& observe);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_PROGRAM_FACTS_H_
