// Waits that hold up one thread of several.
//
// A program is what all threads of its process have issued, in the order in which they
// did, and its host waits where one of them does. Threads that hand over to each other
// need no more. Where a thread waits for a communication that another thread of the
// process has yet to bring about, perhaps by way of other ranks, the other one's ops
// stand behind the wait, and nothing would ever move. Once nothing does, the wait
// becomes the thread's own, as that of a helper: the program continues, the answer
// comes at the end, and the guest moves the clock by what the thread has waited.
//
// No run in which anything else can move gets here, so no rank's times change.
//
// Thread rule: one thread; between runs. Times: nanoseconds of the run. No errors.

#ifndef VRANK_GRAPH_REPLAY_THREAD_WAITS_H_
#define VRANK_GRAPH_REPLAY_THREAD_WAITS_H_

#include <cstdint>
#include <limits>
#include <tuple>

#include "graph/replay/aborts.h"
#include "graph/replay/communicators.h"
#include "graph/replay/engine.h"
#include "graph/replay/futures.h"
#include "graph/replay/helper_ops.h"
#include "graph/replay/inits.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/live_folding.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class ThreadWaits {
 public:
  ThreadWaits(EngineObserver* observer, RankTable& ranks, Worklist& worklist,
              LaneQueues& queues, Futures<Step>& futures,
              Communicators<Step>& communicators, Inits<Step>& inits,
              Aborts<Step>& aborts, HelperOps<Step>& helpers,
              LiveFolding<Step>& folding)
      : observer_(observer),
        ranks_(ranks),
        worklist_(worklist),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        inits_(inits),
        aborts_(aborts),
        helpers_(helpers),
        folding_(folding) {}

  // As in Engine.
  bool LetOthersPass();
  bool EndAborted(int64_t before_ns) {
    // What stands behind a wait has not been executed yet.
    return LetAbortsPass() || aborts_.End(before_ns);
  }

 private:
  using Joiner = CreationMeeting::Joiner;

  static bool WaitsInCall(const RankState& r) {
    return r.blocked == Blocked::kToken || r.blocked == Blocked::kLane ||
           r.blocked == Blocked::kCreation || r.blocked == Blocked::kRelease;
  }
  static bool HasIssuedMore(const RankState& r);
  static bool HasAborted(const RankState& r);
  bool FollowsPassed(const RankState& r) const;
  uint32_t FirstThatMayPass() const;
  bool LetAbortsPass();
  void PassWaits(uint32_t found);
  void PassWait(RankState& r);
  void PassCreation(RankState& r, const Op& op);
  void PassJoiner(RankState& r, Joiner& joiner);
  void StopWaking(const RankState& r, uint32_t future);

  EngineObserver* const observer_;
  RankTable& ranks_;
  Worklist& worklist_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  Inits<Step>& inits_;
  Aborts<Step>& aborts_;
  HelperOps<Step>& helpers_;
  LiveFolding<Step>& folding_;
};

// Ops behind the wait that another thread must have issued, since the one that waits
// cannot, except for the other waits of its call. Ops of helpers and loggers do not
// count.
template <class Step>
bool ThreadWaits<Step>::HasIssuedMore(const RankState& r) {
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
bool ThreadWaits<Step>::HasAborted(const RankState& r) {
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
bool ThreadWaits<Step>::FollowsPassed(const RankState& r) const {
  for (const auto& other : ranks_.all()) {
    if (other->options.real && other->program == r.program)
      return other->cursor > r.cursor;
  }
  return false;
}

// kNone: no rank may. Real ranks come first, then the earliest clock.
template <class Step>
uint32_t ThreadWaits<Step>::FirstThatMayPass() const {
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
  return found;
}

template <class Step>
bool ThreadWaits<Step>::LetOthersPass() {
  if (EndAborted(std::numeric_limits<int64_t>::max()))
    return true;
  const uint32_t found = FirstThatMayPass();
  if (found == kNone)
    return false;
  if (folding_.on()) {
    folding_.Unfold();
    return LetOthersPass();
  }
  PassWaits(found);
  return true;
}

// An abort by another thread, which may be what ends the wait, stands behind it.
template <class Step>
bool ThreadWaits<Step>::LetAbortsPass() {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (!r.options.real || !WaitsInCall(r) || !HasAborted(r))
      continue;
    if (folding_.on()) {
      folding_.Unfold();
      return LetAbortsPass();
    }
    PassWaits(i);
    return true;
  }
  return false;
}

// Of a real rank, or one that follows, and of all that have got just as far.
template <class Step>
void ThreadWaits<Step>::PassWaits(uint32_t found) {
  RankState& first = ranks_[found];
  const Blocked why = first.blocked;
  // A creation stays the program's: a later run of it has to wait for the members.
  if (first.options.real && why != Blocked::kCreation) {
    observer_->OnHostPassed(first.world_rank, first.cursor);
    first.program->SetFromHelper(first.cursor);
  }
  const uint64_t cursor = first.cursor;
  PassWait(first);
  // Those that follow this rank and have got just as far.
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    RankState& r = ranks_[i];
    if (r.program == first.program && r.cursor == cursor && r.blocked == why)
      PassWait(r);
  }
}

template <class Step>
void ThreadWaits<Step>::PassWait(RankState& r) {
  const Op op = *r.next_op;
  if (r.blocked == Blocked::kCreation) {
    PassCreation(r, op);
  } else {
    if (r.blocked == Blocked::kToken)
      StopWaking(r, r.tokens[op.a].future);
    else if (r.blocked == Blocked::kRelease)
      StopWaking(r, r.communicators[op.a].last_future);
    else
      queues_[r.lanes[op.lane].queue].host_waits = false;
    // Followers that get here later find the op like this in the program.
    Op own = op;
    own.from_helper = 1;
    if (own.kind == OpKind::kPollToken)
      own.kind = OpKind::kHostWaitToken;
    else if (own.kind == OpKind::kPollLane)
      own.kind = OpKind::kHostWaitLane;
    helpers_.Execute(r, own);
  }
  Advance(r);
  worklist_.Wake(r);
}

template <class Step>
void ThreadWaits<Step>::PassCreation(RankState& r, const Op& op) {
  const LocalCommunicator& local = r.communicators[op.a];
  // A member that asked by a token waits for no answer here.
  if (local.communicator == kNone) {
    inits_.ForEachUndecided([&](Joiner& joiner) {
      if (joiner.rank == r.index && joiner.op == r.cursor && joiner.future == kNone)
        PassJoiner(r, joiner);
    });
    return;
  }
  Communicator<Step>& c = communicators_[local.communicator];
  const bool split = r.program->details().creations[op.b].parent != 0;
  // All members of the process: none of their answers moves the host any more.
  for (Joiner& joiner : (split ? c.Split(local.splits) : c.creation).joiners) {
    if (joiner.rank == r.index && joiner.future == kNone)
      PassJoiner(r, joiner);
  }
}

template <class Step>
void ThreadWaits<Step>::PassJoiner(RankState& r, Joiner& joiner) {
  joiner.passed = true;
  if (r.options.real)
    observer_->OnHostPassed(r.world_rank, joiner.op);
}

template <class Step>
void ThreadWaits<Step>::StopWaking(const RankState& r, uint32_t future) {
  futures_.ForEachWaiter(future, [&](Waiter& waiter) {
    if (waiter.kind == Waiter::Kind::kHost && waiter.target == r.index)
      waiter.kind = Waiter::Kind::kNobody;
  });
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_THREAD_WAITS_H_
