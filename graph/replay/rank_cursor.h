// A rank's place in its program, and what its timeline's observer learns there.
//
// Thread rule: functions of their arguments.

#ifndef VRANK_GRAPH_REPLAY_RANK_CURSOR_H_
#define VRANK_GRAPH_REPLAY_RANK_CURSOR_H_

#include <cstdint>

#include "graph/replay/rank_state.h"

namespace vrank::graph {

// Reports to the timeline's observer. Out of line, so that ranks without one run
// through short code. REQUIRES: r.timeline != nullptr.
//
// An op that the rank has left on a lane has ended. `op`: the low half of its index.
[[gnu::cold]] void ReportEnded(const RankState& r, uint32_t op, const Stamp& begin,
                               const Stamp& end);
// The host reaches the op at the cursor.
[[gnu::cold]] void NoteReached(RankState& r);
// The host passes the op at the cursor.
[[gnu::cold]] void ReportPassed(const RankState& r);

// The host is done with the op at the cursor.
inline void Advance(RankState& r) {
  if (r.timeline != nullptr) [[unlikely]]
    ReportPassed(r);
  ++r.cursor;
  ++r.next_op;
  r.stage = RankState::Stage::kFresh;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_RANK_CURSOR_H_
