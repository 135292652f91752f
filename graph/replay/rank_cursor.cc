// See rank_cursor.h.

#include "graph/replay/rank_cursor.h"

namespace vrank::graph {

void ReportEnded(const RankState& r, uint32_t op, const Stamp& begin,
                 const Stamp& end) {
  // Queued ops keep half of their index: less than 2^32 ops are ever behind the cursor.
  const uint64_t index = r.cursor - (static_cast<uint32_t>(r.cursor) - op);
  r.timeline->OnOpEnded(r.world_rank, index, begin, end);
}

void NoteReached(RankState& r) {
  r.reached = r.host;
}

void ReportPassed(const RankState& r) {
  const Stamp& reached = r.next_op->from_helper != 0 ? r.host : r.reached;
  r.timeline->OnOpPassed(r.world_rank, r.cursor, reached, r.host);
}

}  // namespace vrank::graph
