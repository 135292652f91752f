// Told when each op of a rank happened: what a trace, a profiler and a critical path
// need, and what an answer to a program does not.
//
// Costs nothing for ranks that nobody observes (Engine::ObserveTimeline).
//
// Thread rule: called from the engine's thread; must not call back.

#ifndef VRANK_GRAPH_REPLAY_TIMELINE_OBSERVER_H_
#define VRANK_GRAPH_REPLAY_TIMELINE_OBSERVER_H_

#include <cstdint>

#include "graph/replay/stamp.h"

namespace vrank::graph {

class TimelineObserver {
 public:
  virtual ~TimelineObserver() = default;

  // The host has passed op `op` (index in the rank's program). `reached`: its clock
  // with the op's own host time spent; `passed`: ... and with all that it waited for
  // there (a full launch queue, a synchronisation, other members). Per rank in program
  // order, each op once.
  virtual void OnOpPassed(int32_t rank, uint64_t op, const Stamp& reached,
                          const Stamp& passed) = 0;
  // Something on a lane has ended: kWork and kHostFunc (from their start), kCollective
  // and kTransfers (from this rank's arrival), kRecordToken and kWaitToken (a point:
  // begin equals end). Per lane in order; ops of different lanes in the order of
  // evaluation, which is no order of times.
  virtual void OnOpEnded(int32_t rank, uint64_t op, const Stamp& begin,
                         const Stamp& end) = 0;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_TIMELINE_OBSERVER_H_
