// Executes what waits in a lane's queue, until an op needs what is not known.
//
// The step rule is the one that LaneOps applies to ops on lanes whose end is known.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: those of Meetings.

#ifndef VRANK_GRAPH_REPLAY_LANE_DRAIN_H_
#define VRANK_GRAPH_REPLAY_LANE_DRAIN_H_

#include <cstdint>
#include <utility>

#include "graph/replay/engine.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/meetings.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class LaneDrain {
 public:
  // `latency_ns`: EngineOptions::launch_latency.
  LaneDrain(int64_t latency_ns, EngineObserver* observer, RankTable& ranks,
            Worklist& worklist, LaneQueues& queues, Futures<Step>& futures,
            Meetings<Step>& meetings, HostAnswers<Step> answers)
      : latency_ns_(latency_ns),
        observer_(observer),
        ranks_(ranks),
        worklist_(worklist),
        queues_(queues),
        futures_(futures),
        meetings_(meetings),
        answers_(answers) {}

  // The queue may be given back by this.
  void Drain(uint32_t index) {
    queues_.BeginDrain(index);
    LaneQueue& q = queues_[index];
    RankState& r = ranks_[q.rank];
    while (!q.empty() && Execute(index, r, q, q.ops[q.head])) {
      ++q.head;
      --r.queued;
    }
    queues_.EndDrain(index);
  }

 private:
  // False: `op` must wait; what it waits for makes the queue executable again.
  bool Execute(uint32_t index, RankState& r, LaneQueue& q, QueuedOp& op);
  void ResolveToken(RankState& r, const QueuedOp& op, const Stamp& end);
  // REQUIRES: the op takes a place in the launch queue.
  void EndLaunch(RankState& r, uint16_t place, const Stamp& end) {
    r.launches.SetEnd(place, end);
    if (r.blocked == Blocked::kLaunch && r.launches.next_place() == place)
      worklist_.Wake(r);
  }

  const int64_t latency_ns_;
  EngineObserver* const observer_;
  RankTable& ranks_;
  Worklist& worklist_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Meetings<Step>& meetings_;
  HostAnswers<Step> answers_;
};

template <class Step>
bool LaneDrain<Step>::Execute(uint32_t index, RankState& r, LaneQueue& q,
                              QueuedOp& op) {
  const Stamp* begin = &q.end;  // of what is reported as ended
  Stamp start;
  switch (op.kind) {
    case OpKind::kWork:
    case OpKind::kHostFunc: {
      start = Step::Start(q.end, op.host, latency_ns_);
      if (op.kind == OpKind::kHostFunc) {
        if (r.options.real && !std::exchange(q.started, true))
          observer_->OnHostFuncStart(r.world_rank, op.op(), start);
        if (op.value == QueuedOp::kRuns)
          return false;
        q.started = false;
      }
      q.end = op.kind == OpKind::kWork ? Step::WorkEnd(start, op.value, op.source, op.a)
                                       : Step::HostFuncEnd(start, op.value, op.source);
      begin = &start;
      break;
    }
    case OpKind::kRecordToken: {
      const Stamp end = Step::TokenEnd(q.end, op.host, latency_ns_);
      ResolveToken(r, op, end);
      if (r.timeline != nullptr) [[unlikely]]
        ReportEnded(r, op.place(), end, end);
      if (op.launch_place != QueuedOp::kNoLaunch)
        EndLaunch(r, op.launch_place, end);
      return true;
    }
    case OpKind::kWaitToken:
      if (op.future == kNone) {
        Step::LaneWait(q.end, op.host);
        break;
      }
      if (!futures_[op.future].known) {
        futures_.AddWaiter(op.future, {Waiter::Kind::kQueue, index, kNone, 0, 0});
        return false;
      }
      Step::LaneWait(q.end, futures_[op.future].end);
      futures_.Unreference(op.future);
      break;
    case OpKind::kQueryLane:
      answers_.CheckQuery(r, op.host.ns, op.b, q.end);
      return true;
    case OpKind::kHostWaitLane:
      answers_.AnswerHelper(r, op.op(), op.host.ns, q.end);
      return true;
    default:  // kCollective, kTransfers: nothing else is queued
      if (!meetings_.Meet(index, q, op))
        return false;
      begin = &q.arrival;
      break;
  }
  if (r.timeline != nullptr) [[unlikely]]
    ReportEnded(r, op.place(), *begin, q.end);
  if (op.launch_place != QueuedOp::kNoLaunch)
    EndLaunch(r, op.launch_place, q.end);
  return true;
}

template <class Step>
void LaneDrain<Step>::ResolveToken(RankState& r, const QueuedOp& op, const Stamp& end) {
  Token& token = r.tokens[op.a];
  if (token.future == op.future) {
    token.end = end;
    token.future = kNone;
    futures_.Unreference(op.future);
  }
  futures_.Resolve(op.future, end);
  futures_.Unreference(op.future);
  if (r.options.real)
    observer_->OnTokenEnd(r.world_rank, op.a, static_cast<uint32_t>(op.value), end);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LANE_DRAIN_H_
