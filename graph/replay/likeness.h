// Whether two ranks that read one program are in one state.
//
// Their queues and futures have other numbers, so what these hold is compared from
// lanes and tokens on. Lower bounds are not: they depend on when the engine looked, and
// each rank's own is right. Nor is what is stale while an end is pending.
//
// Thread rule: one thread; const. No errors.

#ifndef VRANK_GRAPH_REPLAY_LIKENESS_H_
#define VRANK_GRAPH_REPLAY_LIKENESS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graph/replay/futures.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/rank_state.h"

namespace vrank::graph {

template <class Step>
class Likeness {
 public:
  Likeness(const LaneQueues& queues, const Futures<Step>& futures)
      : queues_(queues), futures_(futures) {}

  bool AreAlike(const RankState& a, const RankState& b) const;

 private:
  static bool HaveLikeProgress(const RankState& a, const RankState& b);
  bool AreAlike(const Lane& a, const Lane& b) const;
  bool AreAlike(const Token& a, const Token& b) const;
  bool AreAlike(const LocalCommunicator& a, const LocalCommunicator& b) const;
  bool AreAlike(const LaneQueue& a, const LaneQueue& b) const;
  bool AreAlike(uint32_t a, uint32_t b, bool communicates) const;  // futures

  const LaneQueues& queues_;
  const Futures<Step>& futures_;
};

template <class Step>
bool Likeness<Step>::AreAlike(const RankState& a, const RankState& b) const {
  if (!HaveLikeProgress(a, b))
    return false;
  for (size_t i = 0; i < a.lanes.size(); ++i) {
    if (!AreAlike(a.lanes[i], b.lanes[i]))
      return false;
  }
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    if (!AreAlike(a.tokens[i], b.tokens[i]))
      return false;
  }
  bool alike = true;
  a.communicators.ForEach([&](uint32_t number, const LocalCommunicator& x) {
    alike = alike && AreAlike(x, b.communicators[number]);
  });
  return alike;
}

template <class Step>
bool Likeness<Step>::HaveLikeProgress(const RankState& a, const RankState& b) {
  return a.cursor == b.cursor && a.stage == b.stage && a.blocked == b.blocked &&
         a.launch_place == b.launch_place && a.left == b.left && a.inits == b.inits &&
         a.host == b.host && a.host_waited_ns == b.host_waited_ns &&
         a.queued == b.queued && a.helper_questions == b.helper_questions &&
         a.divergences == b.divergences && a.lanes.size() == b.lanes.size() &&
         a.tokens.size() == b.tokens.size() &&
         a.communicators.size() == b.communicators.size() &&
         a.communicators.entries() == b.communicators.entries() &&
         a.options.work_numerator == b.options.work_numerator &&
         a.options.work_denominator == b.options.work_denominator &&
         !a.options.jitter.on() && !b.options.jitter.on() && a.memory == b.memory &&
         a.launches.IsLike(b.launches);
}

template <class Step>
bool Likeness<Step>::AreAlike(const Lane& a, const Lane& b) const {
  if (a.queue == kNone || b.queue == kNone)
    return a.queue == b.queue && a.end == b.end;
  return AreAlike(queues_[a.queue], queues_[b.queue]);
}

template <class Step>
bool Likeness<Step>::AreAlike(const Token& a, const Token& b) const {
  return a.generation == b.generation && AreAlike(a.future, b.future, false) &&
         (a.future != kNone || a.end == b.end);
}

template <class Step>
bool Likeness<Step>::AreAlike(const LocalCommunicator& a,
                              const LocalCommunicator& b) const {
  return a.state == b.state && a.collectives == b.collectives && a.splits == b.splits &&
         AreAlike(a.last_future, b.last_future, true) &&
         (a.last_future != kNone || a.last_end == b.last_end);
}

template <class Step>
bool Likeness<Step>::AreAlike(const LaneQueue& a, const LaneQueue& b) const {
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
               AreAlike(x.future, y.future,
                        x.kind == OpKind::kCollective || x.kind == OpKind::kTransfers);
      });
}

// `communicates`: of an operation of a communicator. Which queue makes a future known
// follows from the rest.
template <class Step>
bool Likeness<Step>::AreAlike(uint32_t a, uint32_t b, bool communicates) const {
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
  return futures_.WaitersAreAlike(x, y);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LIKENESS_H_
