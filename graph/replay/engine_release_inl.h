// How members leave a meeting, and communicators, in EngineImpl. Included by
// engine_impl.h; the meetings themselves are in engine_creation_inl.h.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_RELEASE_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_RELEASE_INL_H_

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
void EngineImpl<Step>::Bind(const CreationMeeting::Joiner& joiner,
                            uint32_t communicator, uint32_t index) {
  RankState& r = ranks_[joiner.rank];
  if (joiner.withdrawn) {
    ++communicators_[communicator].released;
    communicators_[communicator].aborted = true;
    return;
  }
  LocalCommunicator local;
  local.state = LocalCommunicator::State::kBound;
  local.communicator = communicator;
  local.index = index;
  local.played = communicator;
  local.place = index;
  r.communicators[joiner.number] = local;
  const Comm& c = communicators_[communicator];
  observer_->OnCommunicator(r.world_rank, joiner.number, c.identity, c.members, index);
  for (const uint32_t follower : r.followers_waiting)
    worklist_.Wake(ranks_[follower]);
  r.followers_waiting.clear();
}

// A program that is played uses a communicator that its host did not wait for: there
// the program, or another thread of it, had asked until it existed. The times of the
// questions are the program's, so the clock is not raised.
template <class Step>
bool EngineImpl<Step>::AwaitsForming(RankState& r, const LocalCommunicator& local) {
  if (r.options.real || local.state != LocalCommunicator::State::kForming)
    return false;
  r.blocked = Blocked::kForming;
  return true;
}

// Hosts are raised before anyone is answered: one with several members goes on at the
// latest of its ends, and is told so in every answer.
template <class Step>
void EngineImpl<Step>::FinishCreations(const std::vector<Told>& members) {
  for (const Told& each : members) {
    if (each.joiner.future == kNone && !each.joiner.withdrawn && !each.joiner.passed)
      Step::HostWait(ranks_[each.joiner.rank].host, each.host);
  }
  for (const Told& each : members) {
    const CreationMeeting::Joiner& joiner = each.joiner;
    RankState& r = ranks_[joiner.rank];
    if (joiner.withdrawn)
      continue;
    if (r.blocked == Blocked::kForming)
      worklist_.Wake(ranks_[joiner.rank]);
    if (joiner.future != kNone) {
      Stamp end = joiner.host;
      Step::HostWait(end, each.host);
      Token& token = r.tokens[joiner.token];
      if (token.future == joiner.future) {
        token.end = end;
        token.future = kNone;
        Unreference(joiner.future);
      }
      Resolve(joiner.future, end);
      Unreference(joiner.future);
      AnswerHost(r, joiner.op, end, each.value);
      continue;
    }
    if (joiner.passed) {
      Stamp end = joiner.host;
      Step::HostWait(end, each.host);
      if (r.options.real)
        observer_->OnHostAnswer(r.world_rank, joiner.op, end, end, 0, each.value);
      continue;
    }
    AnswerHost(r, joiner.op, r.host, each.value);
    if (r.blocked == Blocked::kCreation && r.cursor == joiner.op) {
      Advance(r);
      worklist_.Wake(ranks_[joiner.rank]);
    }
  }
  for (const Told& each : members)
    ranks_[each.joiner.rank].program->CreationDone(each.joiner.details);
}

// An abort by a rank that has joined and did not wait. The others still meet; who
// joined is a member that has released it at once.
template <class Step>
bool EngineImpl<Step>::Withdraw(uint32_t index, RankState& r, const Op& op,
                                LocalCommunicator& local) {
  const auto is_own = [&](const CreationMeeting::Joiner& joiner) {
    return joiner.rank == index && joiner.number == op.a;
  };
  if (local.communicator == kNone) {
    for (UndecidedInit& init : undecided_) {
      if (is_own(init.joiner))
        Withdraw(r, init.joiner);
    }
  } else {
    Comm& c = communicators_[local.communicator];
    const auto withdraw = [&](CreationMeeting& meeting) {
      const auto own =
          std::find_if(meeting.joiners.begin(), meeting.joiners.end(), is_own);
      if (own == meeting.joiners.end())
        return false;
      Withdraw(r, *own);
      return true;
    };
    if (!withdraw(c.creation))
      withdraw(c.Split(local.splits));
  }
  local.state = LocalCommunicator::State::kReleased;
  if (op.from_helper != 0)
    TellHelper(r, r.cursor, r.host.ns, r.host);
  else
    AnswerHost(r, r.cursor, r.host, 0);
  return true;
}

template <class Step>
void EngineImpl<Step>::Withdraw(RankState& r, CreationMeeting::Joiner& joiner) {
  AnswerHost(r, joiner.op, r.host, 0);
  joiner.withdrawn = true;
  if (joiner.future == kNone)
    return;
  Token& token = r.tokens[joiner.token];
  if (token.future == joiner.future) {
    token.end = r.host;
    token.future = kNone;
    Unreference(joiner.future);
  }
  // Whoever was told "not yet" was told right: it ends because of this.
  for (uint32_t at = futures_[joiner.future].waiters; at != kNone;
       at = waiters_[at].next) {
    if (waiters_[at].kind == Waiter::Kind::kQueryCheck)
      waiters_[at].kind = Waiter::Kind::kNobody;
  }
  Resolve(joiner.future, r.host);
  Unreference(joiner.future);
}

template <class Step>
bool EngineImpl<Step>::Release(uint32_t index, RankState& r, const Op& op) {
  LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
  if (local.state == LocalCommunicator::State::kForming &&
      static_cast<ReleaseKind>(op.b) == ReleaseKind::kAbort)
    return Withdraw(index, r, op, local);
  if (AwaitsForming(r, local))
    return false;
  if (local.state != LocalCommunicator::State::kBound) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} releases communicator {}, which does not exist",
                    r.world_rank, r.cursor, op.a)));
    return false;
  }
  const auto kind = static_cast<ReleaseKind>(op.b);
  if (kind == ReleaseKind::kStop && local.last_future != kNone) {
    local.aborted = some_aborted_ = communicators_[local.communicator].aborted = true;
    local.aborted_at = r.host;
  }
  if (op.from_helper != 0) {
    // A helper waits by itself, not the host; what it releases goes at once.
    if (kind != ReleaseKind::kAbort && local.last_future != kNone)
      AddWaiter(local.last_future,
                {Waiter::Kind::kHelper, index, kNone, 0, r.host.ns, r.cursor});
    else
      TellHelper(r, r.cursor, r.host.ns, local.last_end);
  } else if (kind != ReleaseKind::kAbort) {
    if (local.last_future != kNone) {
      AddWaiter(local.last_future, {Waiter::Kind::kHost, index, kNone, 0, 0});
      r.blocked = Blocked::kRelease;
      return false;
    }
    const int64_t before = r.host.ns;
    Step::HostWait(r.host, local.last_end);
    r.host_waited_ns += r.host.ns - before;
  }
  if (op.from_helper == 0)
    AnswerHost(r, r.cursor, local.last_end, 0);
  if (kind == ReleaseKind::kFinalize || kind == ReleaseKind::kStop)
    return true;
  if (local.last_future != kNone) {
    Unreference(local.last_future);
    local.last_future = kNone;
  }
  local.state = LocalCommunicator::State::kReleased;
  if (folding_ != nullptr) {
    ReleaseFolded(local);
    return true;
  }
  if (kind == ReleaseKind::kAbort &&
      communicators_[local.communicator].operations != 0) {
    local.aborted = some_aborted_ = true;
    local.aborted_at = r.host;
  }
  Comm& released = communicators_[local.communicator];
  ++released.released;
  released.aborted |= kind == ReleaseKind::kAbort;
  // An operation that is still on its way looks the number up at its end.
  const bool idle =
      released.operations == 0 || (kind != ReleaseKind::kAbort && op.from_helper == 0);
  DropIfUnused(local.communicator);
  if (idle)
    programs_.ReleaseNumber(r, op.a);
  return true;
}

// As the kernels of an aborted communicator do. Only where nothing else moves, or would
// move later than that: until then the others may still come, and then it ends with
// them, as if nobody had aborted; so it does not depend on who was looked at first. The
// others meet as if the member were still there. Where links are shared, ends that are
// on their way come in their own time.
template <class Step>
bool EngineImpl<Step>::EndAborted(int64_t before_ns) {
  // What stands behind a wait has not been executed yet.
  if (LetAbortsPass())
    return true;
  if (!some_aborted_ || contention_ != nullptr)
    return false;
  bool ended = false;
  // Those of lanes whose number has been released, too.
  for (uint32_t i = 0; i < queues_.taken(); ++i) {
    const LaneQueue& q = queues_[i];
    if (q.meeting != LaneQueue::Meeting::kArrived)
      continue;
    RankState& r = ranks_[q.rank];
    const LocalCommunicator& local = r.communicators[q.ops[q.head].a];
    if (!local.aborted || local.aborted_at.ns >= before_ns)
      continue;
    EndAborted(r, i, local);
    ended = true;
  }
  return ended;
}

template <class Step>
void EngineImpl<Step>::EndAborted(const RankState& r, uint32_t queue,
                                  const LocalCommunicator& local) {
  Comm& c = communicators_[local.communicator];
  LaneQueue& q = queues_[queue];
  const QueuedOp& op = q.ops[q.head];
  q.meeting_end = q.arrival;
  Step::Raise(q.meeting_end, local.aborted_at);
  if (op.kind == OpKind::kCollective) {
    c.Collective(op.number()).Leave(local.index);
    observer_->OnCollectiveEnd(c.identity, op.number(), local.index, r.world_rank,
                               r.program->details().collectives[op.b], q.arrival,
                               q.meeting_end);
  } else {
    c.ForEachChannel([&](uint32_t from, uint32_t to, auto& channel) {
      if (from == local.index || to == local.index)
        channel.Leave(queue);
    });
  }
  MeetingEnded(queue, q);
}

// Its process is gone. What it had joined by then still ends; nothing more comes, and
// nobody waits for what it waits for.
template <class Step>
void EngineImpl<Step>::LoseRank(int32_t world_rank) {
  const uint32_t index = ranks_.IndexOf(world_rank);
  if (index != kNone && index != RankTable::kAbsent)
    ranks_[index].lost = true;
}

// Gives a communicator back that all present members have released.
template <class Step>
void EngineImpl<Step>::DropIfUnused(uint32_t communicator) {
  Comm& c = communicators_[communicator];
  if (c.released == c.present && c.operations == 0) {
    FindUnmatched(c, &unmatched_);
    c = Comm();
    communicators_.Drop(communicator);
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_RELEASE_INL_H_
