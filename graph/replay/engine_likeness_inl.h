// Whether two ranks are in one state, in EngineImpl. Included by engine_impl.h.
//
// Their queues and futures have other numbers, so what these hold is compared from
// lanes and tokens on. Lower bounds are not: they hang on when the engine looked, and
// each rank's own is right. Nor is what is stale while an end is pending.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_LIKENESS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_LIKENESS_INL_H_

#include <algorithm>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::AreLike(const RankState& a, const RankState& b) const {
  if (a.cursor != b.cursor || a.stage != b.stage || a.blocked != b.blocked ||
      a.launch_place != b.launch_place || a.left != b.left || a.inits != b.inits ||
      a.host != b.host || a.host_waited_ns != b.host_waited_ns ||
      a.queued != b.queued || a.helper_questions != b.helper_questions ||
      a.divergences != b.divergences || a.lanes.size() != b.lanes.size() ||
      a.tokens.size() != b.tokens.size() ||
      a.communicators.size() != b.communicators.size() ||
      a.communicators.entries() != b.communicators.entries() ||
      a.options.work_numerator != b.options.work_numerator ||
      a.options.work_denominator != b.options.work_denominator ||
      a.options.jitter.on() || b.options.jitter.on() || a.memory != b.memory ||
      !a.launches.IsLike(b.launches))
    return false;
  for (size_t i = 0; i < a.lanes.size(); ++i) {
    const Lane &x = a.lanes[i], &y = b.lanes[i];
    if ((x.queue == kNone) != (y.queue == kNone) ||
        !(x.queue == kNone ? x.end == y.end
                           : AreLike(queues_[x.queue], queues_[y.queue])))
      return false;
  }
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    const Token &x = a.tokens[i], &y = b.tokens[i];
    if (x.generation != y.generation || !AreLike(x.future, y.future, false) ||
        (x.future == kNone && x.end != y.end))
      return false;
  }
  bool like = true;
  a.communicators.ForEach([&](uint32_t number, const LocalCommunicator& x) {
    const LocalCommunicator& y = b.communicators[number];
    like = like && x.state == y.state && x.collectives == y.collectives &&
           x.splits == y.splits && AreLike(x.last_future, y.last_future, true) &&
           (x.last_future != kNone || x.last_end == y.last_end);
  });
  return like;
}

template <class Step>
bool EngineImpl<Step>::AreLike(const LaneQueue& a, const LaneQueue& b) const {
  if (a.detached || b.detached || a.lane != b.lane || a.host_waits != b.host_waits ||
      a.end != b.end || a.meeting != b.meeting ||
      a.ops.size() - a.head != b.ops.size() - b.head)
    return false;
  if (a.meeting == LaneQueue::Meeting::kArrived &&
      (a.arrival != b.arrival || a.transfers_left != b.transfers_left ||
       a.latest_transfer != b.latest_transfer || a.meeting_end != b.meeting_end) &&
      !(a.ops[a.head].kind == OpKind::kCollective && a.arrival == b.arrival))
    return false;
  return std::equal(
      a.ops.begin() + static_cast<std::ptrdiff_t>(a.head), a.ops.end(),
      b.ops.begin() + static_cast<std::ptrdiff_t>(b.head),
      [this](const QueuedOp& x, const QueuedOp& y) {
        return x.kind == y.kind && x.host == y.host && x.value == y.value &&
               x.a == y.a && x.b == y.b && x.source == y.source &&
               x.launch_place == y.launch_place &&
               AreLike(x.future, y.future,
                       x.kind == OpKind::kCollective || x.kind == OpKind::kTransfers);
      });
}

// `communicates`: of an operation of a communicator. Their lists of waiters are the
// same, as far as what waits is; which queue makes a future known follows from the
// rest.
template <class Step>
bool EngineImpl<Step>::AreLike(uint32_t a, uint32_t b, bool communicates) const {
  if (a == kNone || b == kNone)
    return a == b;
  const Future &x = futures_[a], &y = futures_[b];
  if (x.known != y.known || x.references != y.references ||
      (x.previous == kNone) != (y.previous == kNone))
    return false;
  if ((x.known || (communicates && x.previous == kNone)) && x.end != y.end)
    return false;
  // One before it that is still pending is in a queue, and compared there.
  if (x.previous != kNone) {
    const Future &before = futures_[x.previous], &other = futures_[y.previous];
    if (before.known != other.known || (before.known && before.end != other.end))
      return false;
  }
  uint32_t i = x.waiters, j = y.waiters;
  while (i != kNone && j != kNone && waiters_[i].kind == waiters_[j].kind &&
         waiters_[i].answer == waiters_[j].answer &&
         waiters_[i].host_ns == waiters_[j].host_ns &&
         waiters_[i].op == waiters_[j].op) {
    i = waiters_[i].next;
    j = waiters_[j].next;
  }
  return i == kNone && j == kNone;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_LIKENESS_INL_H_
