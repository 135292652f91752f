// Ends what ranks have begun on communicators that they have aborted, as the kernels of
// an aborted communicator end.
//
// Only where nothing else moves, or would move later than that: until then the others
// may still come, and then it ends with them, as if there had been no abort; so the
// result does not depend on the order of evaluation. The others meet as if the member
// were still there. Where links are shared, ends in flight come in their own time.
//
// Thread rule: one thread. Times: nanoseconds of the run. No errors.

#ifndef VRANK_GRAPH_REPLAY_ABORTS_H_
#define VRANK_GRAPH_REPLAY_ABORTS_H_

#include <cstdint>

#include "graph/replay/communicators.h"
#include "graph/replay/engine.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

template <class Step>
class Aborts {
 public:
  // `ends_are_held`: links are shared.
  Aborts(bool ends_are_held, EngineObserver* observer, RankTable& ranks,
         LaneQueues& queues, Communicators<Step>& communicators)
      : ends_are_held_(ends_are_held),
        observer_(observer),
        ranks_(ranks),
        queues_(queues),
        communicators_(communicators) {}

  // The rank has given up a communicator with operations pending.
  void Abort(RankState& r, LocalCommunicator& local) {
    local.aborted = some_aborted_ = true;
    local.aborted_at = r.host;
  }
  // Some rank has.
  bool any() const { return some_aborted_; }

  // Those of ranks that aborted before `before_ns`. False: nothing has ended.
  bool End(int64_t before_ns);

 private:
  void End(const RankState& r, uint32_t queue, LaneQueue& q,
           const LocalCommunicator& local);

  const bool ends_are_held_;
  EngineObserver* const observer_;
  RankTable& ranks_;
  LaneQueues& queues_;
  Communicators<Step>& communicators_;
  bool some_aborted_ = false;
};

template <class Step>
bool Aborts<Step>::End(int64_t before_ns) {
  if (!some_aborted_ || ends_are_held_)
    return false;
  bool ended = false;
  // Those of lanes whose number has been released, too.
  queues_.ForEachPending([&](uint32_t i, LaneQueue& q) {
    if (q.meeting != LaneQueue::Meeting::kArrived)
      return;
    RankState& r = ranks_[q.rank];
    const LocalCommunicator& local = r.communicators[q.ops[q.head].a];
    if (!local.aborted || local.aborted_at.ns >= before_ns)
      return;
    End(r, i, q, local);
    ended = true;
  });
  return ended;
}

template <class Step>
void Aborts<Step>::End(const RankState& r, uint32_t queue, LaneQueue& q,
                       const LocalCommunicator& local) {
  Communicator<Step>& c = communicators_[local.communicator];
  const QueuedOp& op = q.ops[q.head];
  q.meeting_end = q.arrival;
  Step::Raise(q.meeting_end, local.aborted_at);
  if (op.kind == OpKind::kCollective) {
    c.Collective(op.number()).Leave(local.index);
    observer_->OnCollectiveEnd(c.identity, op.number(), local.index, r.world_rank,
                               r.program->details().collectives[op.b], q.arrival,
                               q.meeting_end);
  } else {
    c.ForEachChannel([&](uint32_t from, uint32_t to, auto& channel) {
      if (from == local.index || to == local.index)
        channel.Leave(queue);
    });
  }
  queues_.MeetingEnded(queue, q);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ABORTS_H_
