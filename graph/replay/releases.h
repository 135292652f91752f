// Ops that release communicators: a host that waits for what is pending, an abort, and
// one of a communicator that is still being created.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: a communicator that
// does not exist (FirstError).

#ifndef VRANK_GRAPH_REPLAY_RELEASES_H_
#define VRANK_GRAPH_REPLAY_RELEASES_H_

#include <algorithm>
#include <cstdint>

#include <absl/status/status.h>
#include <fmt/format.h>

#include "graph/replay/aborts.h"
#include "graph/replay/communicators.h"
#include "graph/replay/creation_members.h"
#include "graph/replay/first_error.h"
#include "graph/replay/folded_ops.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/inits.h"
#include "graph/replay/numbered.h"
#include "graph/replay/program_readers.h"

namespace vrank::graph {

template <class Step>
class Releases {
 public:
  Releases(ProgramReaders& programs, Futures<Step>& futures,
           Communicators<Step>& communicators, CreationMembers<Step>& members,
           Inits<Step>& inits, FoldedOps<Step>& folded, Aborts<Step>& aborts,
           HostAnswers<Step> answers, FirstError& error)
      : programs_(programs),
        futures_(futures),
        communicators_(communicators),
        members_(members),
        inits_(inits),
        folded_(folded),
        aborts_(aborts),
        answers_(answers),
        error_(error) {}

  // False: the host is blocked at this op.
  bool Release(RankState& r, const Op& op);

 private:
  void Withdraw(RankState& r, const Op& op, LocalCommunicator& local);
  bool AwaitOperations(RankState& r, const Op& op, LocalCommunicator& local);
  void GiveUp(RankState& r, const Op& op, LocalCommunicator& local);

  ProgramReaders& programs_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  CreationMembers<Step>& members_;
  Inits<Step>& inits_;
  FoldedOps<Step>& folded_;
  Aborts<Step>& aborts_;
  HostAnswers<Step> answers_;
  FirstError& error_;
};

template <class Step>
bool Releases<Step>::Release(RankState& r, const Op& op) {
  LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
  const auto kind = static_cast<ReleaseKind>(op.b);
  if (local.state == LocalCommunicator::State::kForming &&
      kind == ReleaseKind::kAbort) {
    Withdraw(r, op, local);
    return true;
  }
  if (AwaitsForming(r, local))
    return false;
  if (local.state != LocalCommunicator::State::kBound) {
    error_.Report(absl::InvalidArgumentError(
        fmt::format("rank {}: op {} releases communicator {}, which does not exist",
                    r.world_rank, r.cursor, op.a)));
    return false;
  }
  if (kind == ReleaseKind::kStop && local.last_future != kNone) {
    communicators_[local.communicator].aborted = true;
    aborts_.Abort(r, local);
  }
  if (!AwaitOperations(r, op, local))
    return false;
  if (kind != ReleaseKind::kFinalize && kind != ReleaseKind::kStop)
    GiveUp(r, op, local);
  return true;
}

// Answers the op. False: the host waits for what the rank has begun.
template <class Step>
bool Releases<Step>::AwaitOperations(RankState& r, const Op& op,
                                     LocalCommunicator& local) {
  const bool waits = static_cast<ReleaseKind>(op.b) != ReleaseKind::kAbort;
  if (op.from_helper != 0) {
    // A helper waits by itself, not the host; what it releases goes at once.
    if (waits && local.last_future != kNone)
      futures_.AddWaiter(local.last_future, {Waiter::Kind::kHelper, r.index, kNone, 0,
                                             r.host.ns, r.cursor});
    else
      answers_.AnswerHelper(r, r.cursor, r.host.ns, local.last_end);
    return true;
  }
  if (waits) {
    if (local.last_future != kNone) {
      futures_.AddWaiter(local.last_future,
                         {Waiter::Kind::kHost, r.index, kNone, 0, 0});
      r.blocked = Blocked::kRelease;
      return false;
    }
    const int64_t before = r.host.ns;
    Step::HostWait(r.host, local.last_end);
    r.host_waited_ns += r.host.ns - before;
  }
  answers_.Answer(r, r.cursor, local.last_end, 0);
  return true;
}

// The rank is no member any more.
template <class Step>
void Releases<Step>::GiveUp(RankState& r, const Op& op, LocalCommunicator& local) {
  if (local.last_future != kNone) {
    futures_.Unreference(local.last_future);
    local.last_future = kNone;
  }
  local.state = LocalCommunicator::State::kReleased;
  if (folded_.on()) {
    folded_.Release(local);
    return;
  }
  const bool abort = static_cast<ReleaseKind>(op.b) == ReleaseKind::kAbort;
  Communicator<Step>& released = communicators_[local.communicator];
  if (abort && released.operations != 0)
    aborts_.Abort(r, local);
  ++released.released;
  released.aborted |= abort;
  // An operation that is still in flight looks the number up at its end.
  const bool idle = released.operations == 0 || (!abort && op.from_helper == 0);
  communicators_.DropIfUnused(local.communicator);
  if (idle)
    programs_.ReleaseNumber(r, op.a);
}

// An abort by a rank that has joined and did not wait. The others still meet.
template <class Step>
void Releases<Step>::Withdraw(RankState& r, const Op& op, LocalCommunicator& local) {
  using Joiner = CreationMeeting::Joiner;
  const auto is_own = [&](const Joiner& joiner) {
    return joiner.rank == r.index && joiner.number == op.a;
  };
  if (local.communicator == kNone) {
    inits_.ForEachUndecided([&](Joiner& joiner) {
      if (is_own(joiner))
        members_.Withdraw(r, joiner);
    });
  } else {
    Communicator<Step>& c = communicators_[local.communicator];
    const auto withdraw = [&](CreationMeeting& meeting) {
      const auto own =
          std::find_if(meeting.joiners.begin(), meeting.joiners.end(), is_own);
      if (own == meeting.joiners.end())
        return false;
      members_.Withdraw(r, *own);
      return true;
    };
    if (!withdraw(c.creation))
      withdraw(c.Split(local.splits));
  }
  local.state = LocalCommunicator::State::kReleased;
  if (op.from_helper != 0)
    answers_.AnswerHelper(r, r.cursor, r.host.ns, r.host);
  else
    answers_.Answer(r, r.cursor, r.host, 0);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_RELEASES_H_
