// Step rules that are wrong on purpose, for a vrank that is built with them: a
// comparison of runs that cannot tell them from right ones would be worth nothing.
//
// This folder comes first in that program's include path, so that
// graph/replay/engine.cc is compiled with this file in the place of the real one, which
// it includes.
//
// Two runs can only differ where a time depends on the order in which things happen to
// be evaluated; a rule that is merely wrong gives both the same wrong times (for those
// there is the oracle, tests/graph/replay). VRANK_WRONG_STEP names the rule:
//
//   none   the real rules: the control
//   hasty  a lower bound that is too high: a question is answered "not yet", as long as
//          the end happens to be unknown
//
// Thread rule: stateless.

#ifndef VRANK_TESTS_E2E_WRONG_STEP_GRAPH_REPLAY_STEP_H_
#define VRANK_TESTS_E2E_WRONG_STEP_GRAPH_REPLAY_STEP_H_

#include <cstdlib>
#include <string_view>

#define Step RightStep
#include "../../../../../graph/replay/step.h"
#undef Step

namespace vrank::graph {

struct Step : RightStep {
  static int64_t EarliestStart(int64_t lane, const Stamp& host, int64_t latency_ns) {
    static const char* const rule = getenv("VRANK_WRONG_STEP");
    static const bool hasty = rule != nullptr && std::string_view(rule) == "hasty";
    constexpr int64_t kTooMuch = 100'000;
    return RightStep::EarliestStart(lane, host, latency_ns) + (hasty ? kTooMuch : 0);
  }
};

}  // namespace vrank::graph

#endif  // VRANK_TESTS_E2E_WRONG_STEP_GRAPH_REPLAY_STEP_H_
