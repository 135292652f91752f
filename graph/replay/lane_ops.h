// Ops on lanes and tokens as the host issues them: kernels, host functions, records and
// waits of tokens.
//
// Every op takes one of two ways: at once, where the lane's end is known, or into the
// lane's queue, to be executed by LaneDrain with the same step rule.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: numbers out of range
// (FirstError).

#ifndef VRANK_GRAPH_REPLAY_LANE_OPS_H_
#define VRANK_GRAPH_REPLAY_LANE_OPS_H_

#include <algorithm>
#include <cstdint>

#include "graph/replay/engine.h"
#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/lane_drain.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/numbered.h"
#include "graph/replay/rank_cursor.h"

namespace vrank::graph {

template <class Step>
class LaneOps {
 public:
  // `latency_ns`: EngineOptions::launch_latency.
  LaneOps(int64_t latency_ns, EngineObserver* observer, LaneQueues& queues,
          Futures<Step>& futures, LaneDrain<Step>& drain, FirstError& error)
      : latency_ns_(latency_ns),
        observer_(observer),
        queues_(queues),
        futures_(futures),
        drain_(drain),
        error_(error) {}

  // kWork, kHostFunc.
  void Work(RankState& r, const Op& op);
  void RecordToken(RankState& r, const Op& op);
  void WaitToken(RankState& r, const Op& op);
  void ReleaseLane(RankState& r, const Op& op);

 private:
  void QueueWork(RankState& r, const Op& op, const Lane& lane, bool runs,
                 int64_t duration);
  void QueueWait(RankState& r, const Op& op, const Lane& lane, const Token& token);
  // The op leaves `end` on a lane whose end is known. `begin`: for the timeline.
  static void Ended(RankState& r, const Op& op, const Stamp& begin, const Stamp& end) {
    if (r.timeline != nullptr) [[unlikely]]
      ReportEnded(r, static_cast<uint32_t>(r.cursor), begin, end);
    if (op.launch != 0)
      r.launches.SetEnd(r.launch_place, end);
  }

  const int64_t latency_ns_;
  EngineObserver* const observer_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  LaneDrain<Step>& drain_;
  FirstError& error_;
};

template <class Step>
inline void LaneOps<Step>::Work(RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  const bool runs = op.kind == OpKind::kHostFunc && op.b == kDurationUnknown;
  int64_t duration = op.value;
  if (op.kind == OpKind::kWork) {
    duration =
        Step::Scaled(duration, r.options.work_numerator, r.options.work_denominator);
    if (r.options.jitter.on()) [[unlikely]]
      duration = Step::Jittered(duration, r.options.jitter, r.jitter_key, r.works++);
  }
  if (lane.queue != kNone || runs) [[unlikely]] {
    QueueWork(r, op, lane, runs, duration);
    return;
  }
  const Stamp start = Step::Start(lane.end, r.host, latency_ns_);
  if (op.kind == OpKind::kHostFunc && r.options.real)
    observer_->OnHostFuncStart(r.world_rank, r.cursor, start);
  if (op.kind == OpKind::kWork) {
    lane.end = Step::WorkEnd(start, duration, op.source, op.b);
    Step::Launched(r.host, op.b);
  } else {
    lane.end = Step::HostFuncEnd(start, duration, op.source);
  }
  Ended(r, op, start, lane.end);
}

// `runs`: a host function that has not returned yet.
template <class Step>
void LaneOps<Step>::QueueWork(RankState& r, const Op& op, const Lane& lane, bool runs,
                              int64_t duration) {
  const bool opens = lane.queue == kNone;
  const uint32_t queue = opens ? queues_.Open(r.index, op.lane) : lane.queue;
  LaneQueue& q = queues_[queue];
  q.lower_bound = Step::EarliestStart(q.lower_bound, r.host, latency_ns_);
  if (!runs)
    q.lower_bound += duration;
  QueuedOp queued = LaneQueues::Queued(r, op);
  queued.value = runs ? QueuedOp::kRuns : duration;
  if (op.kind == OpKind::kWork)
    Step::Launched(r.host, op.b);
  LaneQueues::Push(r, q, queued);
  if (opens)
    drain_.Drain(queue);
}

template <class Step>
inline void LaneOps<Step>::RecordToken(RankState& r, const Op& op) {
  const Lane& lane = LaneAt(r, op.lane, error_);
  Token& token = TokenAt(r, op.a, error_);
  if (token.future != kNone) {
    futures_.Unreference(token.future);
    token.future = kNone;
  }
  ++token.generation;
  if (lane.queue == kNone) {
    token.end = Step::TokenEnd(lane.end, r.host, latency_ns_);
    if (r.options.real)
      observer_->OnTokenEnd(r.world_rank, op.a, token.generation, token.end);
    Ended(r, op, token.end, token.end);
    return;
  }
  LaneQueue& q = queues_[lane.queue];
  // Referred to by the token and by the queued op.
  token.future = futures_.New(
      2, Step::EarliestStart(q.lower_bound, r.host, latency_ns_), lane.queue);
  QueuedOp queued = LaneQueues::Queued(r, op);
  queued.future = token.future;
  queued.value = token.generation;
  LaneQueues::Push(r, q, queued);
}

template <class Step>
inline void LaneOps<Step>::WaitToken(RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  const Token& token = TokenAt(r, op.a, error_);
  if (lane.queue != kNone || token.future != kNone) {
    QueueWait(r, op, lane, token);
    return;
  }
  Step::LaneWait(lane.end, token.end);
  Ended(r, op, lane.end, lane.end);
}

template <class Step>
void LaneOps<Step>::QueueWait(RankState& r, const Op& op, const Lane& lane,
                              const Token& token) {
  const bool opens = lane.queue == kNone;
  const uint32_t queue = opens ? queues_.Open(r.index, op.lane) : lane.queue;
  LaneQueue& q = queues_[queue];
  QueuedOp queued = LaneQueues::Queued(r, op);
  queued.future = token.future;
  if (token.future == kNone) {
    queued.host = token.end;
  } else {
    ++futures_[token.future].references;
    q.lower_bound = std::max(q.lower_bound, futures_[token.future].lower_bound);
  }
  LaneQueues::Push(r, q, queued);
  if (opens)
    drain_.Drain(queue);
}

// What is queued continues under no number; the number begins anew.
template <class Step>
void LaneOps<Step>::ReleaseLane(RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue != kNone)
    queues_[lane.queue].detached = true;
  lane = Lane{};
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LANE_OPS_H_
