// Waits that hold up one thread of several, in EngineImpl. Included by engine_impl.h.
//
// A program is what all threads of its process have issued, in the order in which they
// did, and its host waits where one of them does. Threads that hand over to each other
// need no more. Where a thread waits for a communication that another thread of the
// process has yet to bring about, perhaps by way of other ranks, the other one's ops
// stand behind the wait, and nothing would ever move. Once nothing does, the wait
// becomes the thread's own, as that of a helper: the program goes on, the answer comes
// at the end, and the guest moves the clock by what the thread has waited.
//
// No run in which anything else can move gets here, so nobody's times change.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_THREADS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_THREADS_INL_H_

#include <limits>
#include <tuple>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

// Ops behind the wait that another thread must have issued, since the one that waits
// cannot, but for the other waits of its call. What helpers and loggers write does not
// count.
template <class Step>
bool EngineImpl<Step>::HasIssuedMore(const RankState& r) const {
  const auto waits = [](const Op& op) {
    return op.kind == OpKind::kHostWaitToken || op.kind == OpKind::kHostWaitLane;
  };
  bool own_waits_follow = waits(*r.next_op) && r.next_op->b == kMoreWaits;
  for (uint64_t i = r.cursor + 1; i < r.program->size(); ++i) {
    const Op& op = r.program->op(i);
    if (own_waits_follow && waits(op)) {
      own_waits_follow = op.b == kMoreWaits;
      continue;
    }
    if (op.from_helper == 0 && op.kind != OpKind::kHost &&
        op.kind != OpKind::kRangeBegin && op.kind != OpKind::kRangeEnd)
      return true;
  }
  return false;
}

// A helper has aborted a communicator, or its work, meanwhile.
template <class Step>
bool EngineImpl<Step>::HasAborted(const RankState& r) const {
  for (uint64_t i = r.cursor + 1; i < r.program->size(); ++i) {
    const Op& op = r.program->op(i);
    if (op.kind == OpKind::kReleaseCommunicator && op.from_helper != 0 &&
        static_cast<ReleaseKind>(op.b) >= ReleaseKind::kAbort)
      return true;
  }
  return false;
}

// A follower waits where the rank that wrote its program has passed.
template <class Step>
bool EngineImpl<Step>::FollowsPassed(const RankState& r) const {
  for (const auto& other : ranks_.all()) {
    if (other->options.real && other->program == r.program)
      return other->cursor > r.cursor;
  }
  return false;
}

template <class Step>
bool EngineImpl<Step>::WaitsInCall(const RankState& r) {
  return r.blocked == Blocked::kToken || r.blocked == Blocked::kLane ||
         r.blocked == Blocked::kCreation || r.blocked == Blocked::kRelease;
}

template <class Step>
bool EngineImpl<Step>::LetOtherThreadsPass() {
  if (EndAborted(std::numeric_limits<int64_t>::max()))
    return true;
  uint32_t found = kNone;
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (!WaitsInCall(r) || !(r.options.real ? HasIssuedMore(r) : FollowsPassed(r)))
      continue;
    if (found == kNone ||
        std::tuple(!r.options.real, r.host.ns, r.world_rank) <
            std::tuple(!ranks_[found].options.real, ranks_[found].host.ns,
                       ranks_[found].world_rank))
      found = i;
  }
  if (found == kNone)
    return false;
  if (folding_ != nullptr) {
    Unfold();
    return LetOtherThreadsPass();
  }
  PassWaits(found);
  return true;
}

// An abort by another thread, which may be what ends the wait, stands behind it.
template <class Step>
bool EngineImpl<Step>::LetAbortsPass() {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (!r.options.real || !WaitsInCall(r) || !HasAborted(r))
      continue;
    if (folding_ != nullptr) {
      Unfold();
      return LetAbortsPass();
    }
    PassWaits(i);
    return true;
  }
  return false;
}

// Of a real rank, or one that follows, and of all that have got just as far.
template <class Step>
void EngineImpl<Step>::PassWaits(uint32_t found) {
  RankState& first = ranks_[found];
  const Blocked why = first.blocked;
  // A creation stays the program's: a later run of it has to wait for the members.
  if (first.options.real && why != Blocked::kCreation) {
    observer_->OnHostPassed(first.world_rank, first.cursor);
    first.program->SetFromHelper(first.cursor);
  }
  const uint64_t cursor = first.cursor;
  PassWait(found);
  // Those that follow this rank and have got just as far.
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (r.program == first.program && r.cursor == cursor && r.blocked == why)
      PassWait(i);
  }
}

template <class Step>
void EngineImpl<Step>::PassWait(uint32_t index) {
  RankState& r = ranks_[index];
  const Op op = *r.next_op;
  const auto stop_waking = [&](uint32_t future) {
    for (uint32_t at = futures_[future].waiters; at != kNone; at = waiters_[at].next) {
      if (waiters_[at].kind == Waiter::Kind::kHost && waiters_[at].target == index)
        waiters_[at].kind = Waiter::Kind::kNobody;
    }
  };
  const auto pass = [&](CreationMeeting::Joiner& joiner) {
    joiner.passed = true;
    if (r.options.real)
      observer_->OnHostPassed(r.world_rank, joiner.op);
  };
  if (r.blocked == Blocked::kCreation && r.communicators[op.a].communicator == kNone) {
    // One that asked by a token waits for no answer here.
    for (UndecidedInit& init : undecided_) {
      if (init.joiner.rank == index && init.joiner.op == r.cursor &&
          init.joiner.future == kNone)
        pass(init.joiner);
    }
  } else if (r.blocked == Blocked::kCreation) {
    const LocalCommunicator& local = r.communicators[op.a];
    Comm& c = communicators_[local.communicator];
    const bool split = r.program->details().creations[op.b].parent != 0;
    // All members of the process: none of their answers moves the host any more.
    for (auto& joiner : (split ? c.Split(local.splits) : c.creation).joiners) {
      if (joiner.rank == index && joiner.future == kNone)
        pass(joiner);
    }
  } else {
    if (r.blocked == Blocked::kToken)
      stop_waking(r.tokens[op.a].future);
    else if (r.blocked == Blocked::kRelease)
      stop_waking(r.communicators[op.a].last_future);
    else
      queues_[r.lanes[op.lane].queue].host_waits = false;
    // Followers that get here later find the op like this in the program.
    Op own = op;
    own.from_helper = 1;
    if (own.kind == OpKind::kPollToken)
      own.kind = OpKind::kHostWaitToken;
    else if (own.kind == OpKind::kPollLane)
      own.kind = OpKind::kHostWaitLane;
    ExecuteForHelper(index, r, own);
  }
  Advance(r);
  worklist_.Wake(ranks_[index]);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_THREADS_INL_H_
