// Lane queues and futures of EngineImpl. Included by engine_impl.h.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_LANES_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_LANES_INL_H_

#include <utility>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
QueuedOp EngineImpl<Step>::Queued(const RankState& r, const Op& op) {
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

template <class Step>
uint32_t EngineImpl<Step>::OpenQueue(uint32_t rank, uint32_t lane_number) {
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

// Executes queued ops until one needs what is not known. The queue may be gone after.
template <class Step>
void EngineImpl<Step>::Drain(uint32_t index) {
  draining_ = index;
  LaneQueue& q = queues_[index];
  RankState& r = ranks_[q.rank];
  while (!q.empty() && ExecuteQueued(index, q, q.ops[q.head])) {
    ++q.head;
    --r.queued;
  }
  draining_ = kNone;
  if (q.empty())
    CloseQueue(index, q);
}

// False: `op` must wait; whatever it waits for makes the queue ready again.
template <class Step>
bool EngineImpl<Step>::ExecuteQueued(uint32_t index, LaneQueue& q, QueuedOp& op) {
  RankState& r = ranks_[q.rank];
  const Stamp* begin = &q.end;  // of what is told as ended
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
      Token& token = r.tokens[op.a];
      if (token.future == op.future) {
        token.end = end;
        token.future = kNone;
        Unreference(op.future);
      }
      Resolve(op.future, end);
      Unreference(op.future);
      if (r.options.real) {
        observer_->OnTokenEnd(r.world_rank, op.a, static_cast<uint32_t>(op.value), end);
      }
      if (r.timeline != nullptr) [[unlikely]]
        ReportEnded(r, op.place(), end, end);
      if (op.launch_place != QueuedOp::kNoLaunch)
        SetLaunchEnd(q.rank, op.launch_place, end);
      return true;
    }
    case OpKind::kWaitToken:
      if (op.future == kNone) {
        Step::LaneWait(q.end, op.host);
        break;
      }
      if (!futures_[op.future].known) {
        AddWaiter(op.future, {Waiter::Kind::kQueue, index, kNone, 0, 0});
        return false;
      }
      Step::LaneWait(q.end, futures_[op.future].end);
      Unreference(op.future);
      break;
    case OpKind::kQueryLane:
      CheckQuery(r, op.host.ns, op.b, q.end);
      return true;
    case OpKind::kHostWaitLane:
      TellHelper(r, op.op(), op.host.ns, q.end);
      return true;
    default:  // kCollective, kTransfers: nothing else is queued
      if (!Meet(index, q, op))
        return false;
      begin = &q.arrival;
      break;
  }
  if (r.timeline != nullptr) [[unlikely]]
    ReportEnded(r, op.place(), *begin, q.end);
  if (op.launch_place != QueuedOp::kNoLaunch)
    SetLaunchEnd(q.rank, op.launch_place, q.end);
  return true;
}

template <class Step>
void EngineImpl<Step>::CloseQueue(uint32_t index, LaneQueue& q) {
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
    if (q.host_waits) {
      worklist_.Wake(ranks_[q.rank]);
    } else {
      worklist_.UnparkRank(r);
    }
  }
  queues_.Drop(index);
}

template <class Step>
void EngineImpl<Step>::SetLaunchEnd(uint32_t rank, uint16_t place, const Stamp& end) {
  RankState& r = ranks_[rank];
  r.launches.SetEnd(place, end);
  if (r.blocked == Blocked::kLaunch && r.launches.next_place() == place)
    worklist_.Wake(ranks_[rank]);
}

template <class Step>
uint32_t EngineImpl<Step>::NewFuture(uint32_t references, int64_t lower_bound,
                                     uint32_t queue) {
  const uint32_t index = futures_.Take();
  Future& future = futures_[index];
  future.lower_bound = lower_bound;
  future.references = references;
  future.waiters = kNone;
  future.previous = kNone;
  future.queue = queue;
  future.known = false;
  return index;
}

template <class Step>
void EngineImpl<Step>::Unreference(uint32_t future) {
  if (--futures_[future].references == 0)
    futures_.Drop(future);
}

template <class Step>
void EngineImpl<Step>::AddWaiter(uint32_t future, const Waiter& waiter) {
  const uint32_t index = waiters_.Take();
  waiters_[index] = waiter;
  waiters_[index].next = futures_[future].waiters;
  futures_[future].waiters = index;
}

template <class Step>
void EngineImpl<Step>::Resolve(uint32_t index, const Stamp& end) {
  Future& future = futures_[index];
  future.end = end;
  future.known = true;
  for (uint32_t at = future.waiters; at != kNone;) {
    const Waiter& waiter = waiters_[at];
    switch (waiter.kind) {
      case Waiter::Kind::kQueue:
        worklist_.AddQueue(waiter.target);
        break;
      case Waiter::Kind::kHost:
        worklist_.Wake(ranks_[waiter.target]);
        break;
      case Waiter::Kind::kQueryCheck:
        CheckQuery(ranks_[waiter.target], waiter.host_ns, waiter.answer, end);
        break;
      case Waiter::Kind::kHelper:
        TellHelper(ranks_[waiter.target], waiter.op, waiter.host_ns, end);
        break;
      case Waiter::Kind::kNobody:
        break;
    }
    const uint32_t next = waiter.next;
    waiters_.Drop(at);
    at = next;
  }
  future.waiters = kNone;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_LANES_INL_H_
