// The queues of lanes whose end is not known (lane.h), over all ranks.
//
// What the ops in them do to times is LaneDrain's. Here is which queues exist, what
// they hold, and what continues when one of them has run empty.
//
// Thread rule: one thread. Queues are addressed by index. No errors.

#ifndef VRANK_GRAPH_REPLAY_LANE_QUEUES_H_
#define VRANK_GRAPH_REPLAY_LANE_QUEUES_H_

#include <cstdint>
#include <vector>

#include "graph/program/pool.h"
#include "graph/replay/lane.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

class LaneQueues {
 public:
  LaneQueues(RankTable& ranks, Worklist& worklist)
      : ranks_(ranks), worklist_(worklist) {}

  LaneQueue& operator[](uint32_t queue) { return queues_[queue]; }
  const LaneQueue& operator[](uint32_t queue) const { return queues_[queue]; }

  // An empty queue for a lane whose end is known so far.
  uint32_t Open(uint32_t rank, uint32_t lane_number) {
    const uint32_t index = queues_.Take();
    Lane& lane = ranks_[rank].lanes[lane_number];
    LaneQueue& q = queues_[index];
    q.rank = rank;
    q.lane = lane_number;
    q.detached = q.host_waits = q.started = false;
    q.end = lane.end;
    q.lower_bound = lane.end.ns;
    q.ops.clear();
    q.head = 0;
    q.meeting = LaneQueue::Meeting::kNotArrived;
    lane.queue = index;
    return index;
  }
  // What `op` is while it waits in a lane; the caller adds what it waits for.
  static QueuedOp Queued(const RankState& r, const Op& op) {
    QueuedOp queued;
    queued.host = r.host;
    queued.value = op.value;
    queued.a = op.a;
    queued.b = op.b;
    if (op.kind == OpKind::kHostFunc || op.from_helper != 0)
      queued.set_op(r.cursor);
    else if (op.kind == OpKind::kWork || op.kind == OpKind::kRecordToken ||
             op.kind == OpKind::kWaitToken)
      queued.b = static_cast<uint32_t>(r.cursor);
    if (op.kind == OpKind::kWork)
      queued.a = op.b;
    queued.kind = op.kind;
    queued.source = op.source;
    queued.launch_place = op.launch != 0 ? r.launch_place : QueuedOp::kNoLaunch;
    return queued;
  }
  static void Push(RankState& r, LaneQueue& q, const QueuedOp& op) {
    q.Push(op);
    ++r.queued;
  }

  // Between these two, the queue's own progress does not put it on the worklist.
  void BeginDrain(uint32_t queue) { draining_ = queue; }
  // Gives the queue back if it is empty: its lane's end is known then.
  void EndDrain(uint32_t queue) {
    draining_ = kNone;
    LaneQueue& q = queues_[queue];
    if (q.empty())
      Close(queue, q);
  }
  // The operation of a communicator at the head has its end, in q.meeting_end.
  void MeetingEnded(uint32_t queue, LaneQueue& q) {
    q.meeting = LaneQueue::Meeting::kEnded;
    if (queue != draining_)
      worklist_.AddQueue(queue);
  }

  // A host function of a program, whose start was reported, has returned. The lanes of
  // all ranks that read the program continue behind it.
  void EndHostFunction(uint32_t program, uint64_t op, int64_t duration_ns);

  // Calls visit(index, queue) for every queue that holds ops.
  template <class Visit>
  void ForEachPending(Visit visit) {
    for (uint32_t i = 0; i < queues_.taken(); ++i) {
      if (!queues_[i].empty())
        visit(i, queues_[i]);
    }
  }
  template <class Visit>
  void ForEachPending(Visit visit) const {
    const_cast<LaneQueues*>(this)->ForEachPending(
        [&](uint32_t i, const LaneQueue& q) { visit(i, q); });
  }
  // Those queues by rank.
  std::vector<std::vector<uint32_t>> PendingByRank() const;
  // Calls visit(rank, op) for every op that waits in a lane.
  template <class Visit>
  void ForEachOp(Visit visit) const {
    ForEachPending([&](uint32_t, const LaneQueue& q) {
      for (size_t at = q.head; at < q.ops.size(); ++at)
        visit(static_cast<const RankState&>(ranks_[q.rank]), q.ops[at]);
    });
  }

  // A queue to be filled by the caller; and one given back with all that it holds,
  // whose lane forgets it.
  uint32_t Take() { return queues_.Take(); }
  void Discard(uint32_t queue);

 private:
  void Close(uint32_t index, LaneQueue& q) {
    // What a long pause has piled up is given back.
    constexpr size_t kKeptOps = 4096;
    if (q.ops.capacity() > kKeptOps)
      std::vector<QueuedOp>().swap(q.ops);
    q.ops.clear();  // a queue is in use where it holds ops
    q.head = 0;
    RankState& r = ranks_[q.rank];
    if (!q.detached) {
      r.lanes[q.lane].end = q.end;
      r.lanes[q.lane].queue = kNone;
      if (q.host_waits)
        worklist_.Wake(r);
      else
        worklist_.UnparkRank(r);
    }
    queues_.Drop(index);
  }

  RankTable& ranks_;
  Worklist& worklist_;
  Pool<LaneQueue> queues_;
  uint32_t draining_ = kNone;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LANE_QUEUES_H_
