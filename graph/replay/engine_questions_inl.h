// Waits, polls and queries of the host in EngineImpl. Included by engine_impl.h.
//
// A wait or poll of what is pending blocks the host at its op; once the end is known
// the op is executed again, now with a known end. A query of a virtual rank never
// blocks: the program knows the answer, which is only compared.
//
// Helper threads (watchdogs, loggers) ask beside the rank: their waits block neither
// the host nor its clock, and their queries are answered by the clock at their place.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_QUESTIONS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_QUESTIONS_INL_H_

#include <algorithm>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::WaitForToken(uint32_t index, RankState& r, const Op& op) {
  const Token& token = TokenAt(r, op.a, error_);
  if (token.future != kNone) {
    AddWaiter(token.future, {Waiter::Kind::kHost, index, kNone, 0, 0});
    r.blocked = Blocked::kToken;
    return false;
  }
  HostReaches(r, op, token.end, op.kind == OpKind::kPollToken);
  return true;
}

template <class Step>
bool EngineImpl<Step>::WaitForLane(uint32_t, RankState& r, const Op& op) {
  const Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue != kNone) {
    queues_[lane.queue].host_waits = true;
    r.blocked = Blocked::kLane;
    return false;
  }
  HostReaches(r, op, lane.end, op.kind == OpKind::kPollLane);
  return true;
}

template <class Step>
void EngineImpl<Step>::HostReaches(RankState& r, const Op& op, const Stamp& end,
                                   bool poll) {
  const int64_t before = r.host.ns;
  if (poll)
    Step::HostPoll(r.host, end, op.value, op.source);
  else
    Step::HostWait(r.host, end);
  r.host_waited_ns += r.host.ns - before;
  AnswerHost(r, r.cursor, end, 0);
}

template <class Step>
void EngineImpl<Step>::AnswerHost(RankState& r, uint64_t op, const Stamp& end,
                                  uint64_t value) {
  if (r.options.real) {
    observer_->OnHostAnswer(r.world_rank, op, r.host, end,
                            r.launches.Retired(r.host.ns), value);
  }
}

template <class Step>
bool EngineImpl<Step>::Query(uint32_t index, RankState& r, const Op& op) {
  if (r.options.real)
    return AskQuery(index, r, op);
  if (op.b == kAnswerUnknown) {
    // The leader has not been answered, so nothing follows in the program either.
    programs_.Starve(r);
    return false;
  }
  CheckAnswer(index, r, op);
  return true;
}

// Compares the answer that the program was given with the end, once that is known.
template <class Step>
void EngineImpl<Step>::CheckAnswer(uint32_t index, RankState& r, const Op& op) {
  if (op.kind == OpKind::kQueryToken) {
    const Token& token = TokenAt(r, op.a, error_);
    if (token.future == kNone) {
      CheckQuery(r, r.host.ns, op.b, token.end);
    } else {
      AddWaiter(token.future,
                {Waiter::Kind::kQueryCheck, index, kNone, op.b, r.host.ns});
    }
    return;
  }
  const Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue == kNone) {
    CheckQuery(r, r.host.ns, op.b, lane.end);
  } else {
    queues_[lane.queue].Push(Queued(r, op));
    ++r.queued;
  }
}

// A real rank asks. "Not yet" as soon as a lower bound of the end has passed now; the
// guest hears the bound, and answers by itself until then.
template <class Step>
bool EngineImpl<Step>::AskQuery(uint32_t index, RankState& r, const Op& op) {
  int64_t lower_bound = 0;
  if (op.kind == OpKind::kQueryToken) {
    const Token& token = TokenAt(r, op.a, error_);
    if (token.future == kNone) {
      AnswerQuery(r, Step::HasEnded(token.end, r.host), token.end);
      return true;
    }
    lower_bound = futures_[token.future].lower_bound;
  } else {
    const Lane& lane = LaneAt(r, op.lane, error_);
    if (lane.queue == kNone) {
      AnswerQuery(r, Step::HasEnded(lane.end, r.host), lane.end);
      return true;
    }
    lower_bound = queues_[lane.queue].lower_bound;
  }
  if (lower_bound > r.host.ns) {
    AnswerQuery(r, false, Stamp{.ns = lower_bound});
    return true;
  }
  if (op.b != kAnswerUnknown) {  // by a bound of DecideOldestQuery
    CheckAnswer(index, r, op);
    return true;
  }
  if (op.kind == OpKind::kQueryToken) {
    AddWaiter(r.tokens[op.a].future, {Waiter::Kind::kHost, index, kNone, 0, 0});
  } else {
    queues_[r.lanes[op.lane].queue].host_waits = true;
  }
  r.blocked = Blocked::kQuery;
  return false;
}

// An op of a thread that issues no work. False: the rank's ops wait, not its clock.
template <class Step>
bool EngineImpl<Step>::ExecuteForHelper(uint32_t index, RankState& r, const Op& op) {
  if (op.kind == OpKind::kReleaseCommunicator)
    return (folding_ == nullptr || HoldsFolded(r, op)) && Release(index, r, op);
  ++r.helper_questions;
  if (!r.options.real)
    return true;
  switch (op.kind) {
    case OpKind::kQueryToken:
    case OpKind::kQueryLane: {
      const bool answered = AskQuery(index, r, op);
      if (!answered)
        --r.helper_questions;
      return answered;
    }
    case OpKind::kHostWaitToken: {
      const Token& token = TokenAt(r, op.a, error_);
      if (token.future == kNone)
        TellHelper(r, r.cursor, r.host.ns, token.end);
      else
        AddWaiter(token.future,
                  {Waiter::Kind::kHelper, index, kNone, 0, r.host.ns, r.cursor});
      return true;
    }
    case OpKind::kHostWaitLane: {
      const Lane& lane = LaneAt(r, op.lane, error_);
      if (lane.queue == kNone) {
        TellHelper(r, r.cursor, r.host.ns, lane.end);
      } else {
        queues_[lane.queue].Push(Queued(r, op));
        ++r.queued;
      }
      return true;
    }
    case OpKind::kAskClock:
      TellHelper(r, r.cursor, r.host.ns, r.host);
      return true;
    default:
      error_.Report(absl::InvalidArgumentError(
          fmt::format("rank {}: op {} ({}) comes from a thread that issues no work",
                      r.world_rank, r.cursor, Name(op.kind))));
      return false;
  }
}

// `asked_ns`: the host clock at the question. The answer's clock is the helper's own.
// It says nothing about launches: the host has not waited for any.
template <class Step>
void EngineImpl<Step>::TellHelper(const RankState& r, uint64_t op, int64_t asked_ns,
                                  const Stamp& end) {
  if (!r.options.real)
    return;
  Stamp clock;
  clock.ns = asked_ns;
  Step::HostWait(clock, end);
  observer_->OnHostAnswer(r.world_rank, op, clock, end, 0, 0);
}

template <class Step>
void EngineImpl<Step>::AnswerQuery(RankState& r, bool complete, const Stamp& end) {
  const uint32_t answer = complete ? kAnswerComplete : kAnswerNotYet;
  const bool helper = r.next_op->from_helper != 0;
  const uint32_t told = r.next_op->b;
  // A helper's query is no part of what the program did.
  if (told != answer && !helper) {
    // What the guest found out by itself must be what the engine says.
    if (told != kAnswerUnknown)
      ++r.told_otherwise;
    r.program->SetAnswer(r.cursor, answer);
    programs_.WakeStarved(r.program_index);
  }
  observer_->OnQueryAnswer(r.world_rank, r.cursor, r.host, complete, end,
                           helper ? 0 : r.launches.Retired(r.host.ns));
}

template <class Step>
void EngineImpl<Step>::CheckQuery(RankState& r, int64_t host_ns, uint32_t answer,
                                  const Stamp& end) {
  Stamp asked;
  asked.ns = host_ns;
  if (Step::HasEnded(end, asked) != (answer == kAnswerComplete))
    ++r.divergences;
}

template <class Step>
uint32_t EngineImpl<Step>::FindOldestQuery() const {
  uint32_t oldest = kNone;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (r.blocked != Blocked::kQuery)
      continue;
    if (oldest == kNone ||
        std::pair(r.host.ns, r.world_rank) <
            std::pair(ranks_[oldest].host.ns, ranks_[oldest].world_rank)) {
      oldest = i;
    }
  }
  return oldest;
}

template <class Step>
std::optional<Engine::OpenQuery> EngineImpl<Step>::OldestQuery() const {
  const uint32_t oldest = FindOldestQuery();
  if (oldest == kNone)
    return std::nullopt;
  const RankState& r = ranks_[oldest];
  const Op& op = *r.next_op;
  // No lane's progress makes its end known.
  const bool meets =
      op.kind == OpKind::kQueryToken && futures_[r.tokens[op.a].future].queue == kNone;
  return Engine::OpenQuery{r.host.ns, r.world_rank, meets};
}

// Another querying rank may issue work from its own time on, once it is answered,
// unless it is a polling loop. Ranks that follow it may do so earlier.
template <class Step>
int64_t EngineImpl<Step>::BoundBesideQueries(uint32_t asker,
                                             int64_t not_before_ns) const {
  bool follows = false, asks = false;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    follows |= r.options.follower;
    if (i == asker || r.blocked != Blocked::kQuery || r.next_op->value == kAsksAgain)
      continue;
    asks = true;
    not_before_ns = std::min(not_before_ns, r.host.ns);
  }
  return follows && asks ? 0 : not_before_ns;
}

template <class Step>
bool EngineImpl<Step>::DecideOldestQuery(int64_t not_before_ns) {
  const uint32_t oldest = FindOldestQuery();
  if (oldest == kNone)
    return false;
  RankState& r = ranks_[oldest];
  const Op op = *r.next_op;
  // The host no longer waits, but the answer is checked when the end becomes known.
  if (op.kind == OpKind::kQueryToken) {
    for (uint32_t at = futures_[r.tokens[op.a].future].waiters; at != kNone;
         at = waiters_[at].next) {
      Waiter& waiter = waiters_[at];
      if (waiter.kind == Waiter::Kind::kHost && waiter.target == oldest) {
        waiter.kind = Waiter::Kind::kQueryCheck;
        waiter.answer = kAnswerNotYet;
        waiter.host_ns = r.host.ns;
      }
    }
  } else {
    LaneQueue& q = queues_[r.lanes[op.lane].queue];
    q.host_waits = false;
    QueuedOp check = Queued(r, op);
    check.b = kAnswerNotYet;
    q.Push(check);
    ++r.queued;
  }
  AnswerQuery(r, false, Stamp{.ns = BoundBesideQueries(oldest, not_before_ns)});
  Advance(r);
  worklist_.Wake(ranks_[oldest]);
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_QUESTIONS_INL_H_
