// Ops of EngineImpl as the host issues them. Included by engine_impl.h.
//
// Every op has two roads: at once, where the lane's end is known, or into the lane's
// queue, to be executed by engine_lanes_inl.h with the same step rule.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_HOST_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_HOST_INL_H_

#include <algorithm>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::Execute(uint32_t index, RankState& r, const Op& op) {
  if (folding_ != nullptr && !HoldsFolded(r, op))
    return false;
  switch (op.kind) {
    case OpKind::kHost:
      return true;
    case OpKind::kWork:
    case OpKind::kHostFunc:
      Work(r, op);
      return true;
    case OpKind::kRecordToken:
      RecordToken(r, op);
      return true;
    case OpKind::kWaitToken:
      WaitToken(index, r, op);
      return true;
    case OpKind::kReleaseLane:
      ReleaseLane(r, op);
      return true;
    case OpKind::kHostWaitToken:
    case OpKind::kPollToken:
      return WaitForToken(index, r, op);
    case OpKind::kHostWaitLane:
    case OpKind::kPollLane:
      return WaitForLane(index, r, op);
    case OpKind::kQueryToken:
    case OpKind::kQueryLane:
      return Query(index, r, op);
    case OpKind::kCreateCommunicator:
      return Create(index, r, op);
    case OpKind::kReleaseCommunicator:
      return Release(index, r, op);
    case OpKind::kCollective:
    case OpKind::kTransfers:
      return IssueCommunication(index, r, op);
    case OpKind::kMemory:
      Memory(r, op);
      return true;
    case OpKind::kRangeBegin:
    case OpKind::kRangeEnd:
      TellRange(r, op);
      return true;
    case OpKind::kAskClock:
      AnswerHost(r, r.cursor, r.host, 0);
      return true;
  }
  error_.Report(absl::InvalidArgumentError(fmt::format(
      "rank {}: op {} has unknown kind {}; the program was written by another "
      "version",
      r.world_rank, r.cursor, static_cast<int>(op.kind))));
  return false;
}

template <class Step>
bool EngineImpl<Step>::TakeLaunchPlace(RankState& r) {
  if (const Stamp* oldest = r.launches.Oldest()) {
    if (oldest->ns == LaunchQueue::kPending) {
      r.blocked = Blocked::kLaunch;
      return false;
    }
    const int64_t before = r.host.ns;
    Step::HostWait(r.host, *oldest);
    r.host_waited_ns += r.host.ns - before;
  }
  r.launch_place = r.launches.Take();
  return true;
}

template <class Step>
void EngineImpl<Step>::Work(RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  const bool runs = op.kind == OpKind::kHostFunc && op.b == kDurationUnknown;
  int64_t duration = op.value;
  if (op.kind == OpKind::kWork) {
    duration =
        Step::Scaled(duration, r.options.work_numerator, r.options.work_denominator);
    if (r.options.jitter.on()) [[unlikely]]
      duration = Step::Jittered(duration, r.options.jitter, r.jitter_key, r.works++);
  }
  if (lane.queue == kNone && !runs) [[likely]] {
    const Stamp start = Step::Start(lane.end, r.host, latency_ns_);
    if (op.kind == OpKind::kHostFunc && r.options.real)
      observer_->OnHostFuncStart(r.world_rank, r.cursor, start);
    if (op.kind == OpKind::kWork) {
      lane.end = Step::WorkEnd(start, duration, op.source, op.b);
      Step::Launched(r.host, op.b);
    } else {
      lane.end = Step::HostFuncEnd(start, duration, op.source);
    }
    if (r.timeline != nullptr) [[unlikely]]
      ReportEnded(r, static_cast<uint32_t>(r.cursor), start, lane.end);
    if (op.launch != 0)
      r.launches.SetEnd(r.launch_place, lane.end);
    return;
  }
  const bool opens = lane.queue == kNone;
  const uint32_t queue = opens ? OpenQueue(r.index, op.lane) : lane.queue;
  LaneQueue& q = queues_[queue];
  q.lower_bound = Step::EarliestStart(q.lower_bound, r.host, latency_ns_);
  if (!runs)
    q.lower_bound += duration;
  QueuedOp queued = Queued(r, op);
  queued.value = runs ? QueuedOp::kRuns : duration;
  if (op.kind == OpKind::kWork)
    Step::Launched(r.host, op.b);
  q.Push(queued);
  ++r.queued;
  if (opens)
    Drain(queue);
}

// Its lanes and those of ranks that follow go on behind it.
template <class Step>
void EngineImpl<Step>::EndHostFunction(int32_t world_rank, uint64_t op,
                                       int64_t duration_ns) {
  const RankState& ended = ranks_[ranks_.IndexOf(world_rank)];
  if (op >= ended.program->Released())
    ended.program->SetDuration(op, duration_ns);
  for (uint32_t queue = 0; queue < queues_.taken(); ++queue) {
    LaneQueue& q = queues_[queue];
    if (q.empty() || ranks_[q.rank].program_index != ended.program_index)
      continue;
    const auto head = q.ops.begin() + static_cast<std::ptrdiff_t>(q.head);
    const auto runs = std::find_if(head, q.ops.end(), [op](const QueuedOp& each) {
      return each.kind == OpKind::kHostFunc && each.op() == op;
    });
    if (runs == q.ops.end())
      continue;
    runs->value = duration_ns;
    if (runs == head)
      worklist_.AddQueue(queue);
  }
}

template <class Step>
void EngineImpl<Step>::RecordToken(RankState& r, const Op& op) {
  const Lane& lane = LaneAt(r, op.lane, error_);
  Token& token = TokenAt(r, op.a, error_);
  if (token.future != kNone) {
    Unreference(token.future);
    token.future = kNone;
  }
  ++token.generation;
  if (lane.queue == kNone) {
    token.end = Step::TokenEnd(lane.end, r.host, latency_ns_);
    if (op.launch != 0)
      r.launches.SetEnd(r.launch_place, token.end);
    if (r.options.real)
      observer_->OnTokenEnd(r.world_rank, op.a, token.generation, token.end);
    if (r.timeline != nullptr) [[unlikely]]
      ReportEnded(r, static_cast<uint32_t>(r.cursor), token.end, token.end);
    return;
  }
  LaneQueue& q = queues_[lane.queue];
  // Referred to by the token and by the queued op.
  token.future =
      NewFuture(2, Step::EarliestStart(q.lower_bound, r.host, latency_ns_), lane.queue);
  QueuedOp queued = Queued(r, op);
  queued.future = token.future;
  queued.value = token.generation;
  q.Push(queued);
  ++r.queued;
}

template <class Step>
void EngineImpl<Step>::WaitToken(uint32_t index, RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  const Token& token = TokenAt(r, op.a, error_);
  if (lane.queue == kNone && token.future == kNone) {
    Step::LaneWait(lane.end, token.end);
    if (r.timeline != nullptr) [[unlikely]]
      ReportEnded(r, static_cast<uint32_t>(r.cursor), lane.end, lane.end);
    if (op.launch != 0)
      r.launches.SetEnd(r.launch_place, lane.end);
    return;
  }
  const bool opens = lane.queue == kNone;
  const uint32_t queue = opens ? OpenQueue(index, op.lane) : lane.queue;
  LaneQueue& q = queues_[queue];
  QueuedOp queued = Queued(r, op);
  queued.future = token.future;
  if (token.future == kNone) {
    queued.host = token.end;
  } else {
    ++futures_[token.future].references;
    q.lower_bound = std::max(q.lower_bound, futures_[token.future].lower_bound);
  }
  q.Push(queued);
  ++r.queued;
  if (opens)
    Drain(queue);
}

// What is queued goes on under no number; the number begins anew.
template <class Step>
void EngineImpl<Step>::ReleaseLane(RankState& r, const Op& op) {
  Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue != kNone)
    queues_[lane.queue].detached = true;
  lane = Lane{};
}

template <class Step>
void EngineImpl<Step>::Memory(RankState& r, const Op& op) {
  r.memory.Apply(op);
  if (r.options.real)
    observer_->OnMemory(r.world_rank, op, r.host.ns);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_HOST_INL_H_
