// A replay as a GOAL schedule: what LogGOPSim reads (Hoefler, Schneider, Lumsdaine,
// LogGOPSim, HPDC 2010; github.com/spcl/LogGOPSim), so that another simulator can check
// when everything ends.
//
// GOAL has processes that calculate, send and receive, and an order within each. A
// simulator times what one of its processors does in order, and messages; it does not
// carry times from one processor of a process to another. So each host and each lane of
// a rank is a process of its own here, which does its ops one after the other, and all
// that crosses is a message of one byte. Messages stand for order only: costs are in
// calculations, so the matching parameters are L = o = g = G = O = 0 and S >= 1.
//
//   - Clocks of lanes run `launch latency` ahead: a launch is a message, and where the
//     host waits for a lane a helper process adds the latency back.
//   - Collectives of all meet at their first member; rooted ones and transfers exchange
//     messages as their ends depend on each other.
//   - Waits for a place in the launch queue are kept where the replay felt them, and
//     left out elsewhere: with other costs they could come out otherwise.
//
// Refused: hosts that poll, or go on while a communicator is made; groups of transfers
// with different costs, or with sends that wait for credit.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_EXPORT_GOAL_H_
#define VRANK_GRAPH_EXPORT_GOAL_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/analysis/timeline.h"

namespace vrank::graph {

struct GoalFacts {
  uint32_t processes = 0;
  uint64_t ops = 0;
  int64_t end_ns = 0;           // when the last process has done all
  std::vector<uint32_t> hosts;  // the host's process, by place in Timeline::ranks
};

// REQUIRES: every rank of the job was played by itself, without contention.
// Unimplemented: see above. DataLoss if `out` does not take all of it. `begin` is told
// how many bytes it will be before the first one is written; its error ends it.
absl::StatusOr<GoalFacts> WriteGoal(
    const Timeline& timeline, std::ostream& out,
    const std::function<absl::Status(uint64_t bytes)>& begin = nullptr);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_EXPORT_GOAL_H_
