// The launch queue without a queue.
//
// A launch waits until the one `depth` launches before it has ended (rank_state.h).
// Kept as it is, that needs the ends of the last 1,024 launches of every rank. But most
// of these waits cannot be felt: where the device is behind, the lane that the launch
// goes to ends later than the host could ever come, and where the host waits for
// something later anyway, that wait hides the earlier one. Which ones these are follows
// from the program alone, from the least durations of what lies between:
//
//   launch j waits for launch m on lane M, so from then on
//       host >= end(m) + (host costs since j)
//   a lane L that is known to come after M, by its own ops and by tokens, obeys
//       end(L) >= end(m) + (least work between m and the point that L comes after)
//   where the second is not less, max(end(L), host + latency) does not see the first.
//
// What remains must be waited for; the sweep saves those ends in slots. A host clock
// from which the other waits are missing is too low until the next op that looks at
// it, and every op that looks at it (a wait, a query, a range that is observed, the
// end) gets back those waits that are still higher than what it waits for. Ties count
// as felt where the first argument of a maximum would lose its ledger by them.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_SWEEP_LAUNCHES_H_
#define VRANK_GRAPH_SWEEP_LAUNCHES_H_

#include <cstdint>
#include <vector>

#include "graph/sweep/code.h"

namespace vrank::graph {

// The op at `waiting` waits for the end of what the op at `launched` launched.
struct LaunchWait {
  uint32_t waiting = 0, launched = 0;
  friend bool operator==(const LaunchWait&, const LaunchWait&) = default;
};

// The waits that can be felt, by `waiting`. `looks`: by op, whether it looks at the
// host clock although its kind does not say so (an observed range).
std::vector<LaunchWait> FeltLaunchWaits(const Program& program,
                                        const SweepCodeOptions& options,
                                        const std::vector<bool>& looks);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_LAUNCHES_H_
