// Ranks as members of a meeting in which a communicator is created: how they join,
// wait, learn of the end, or withdraw.
//
// Creating a communicator is a rendezvous of host threads: all continue at the latest
// member's host clock plus the model's cost. A process with several members joins with
// all of them before its host blocks, as a thread does inside ncclGroupStart and
// ncclGroupEnd. The meetings themselves are those of Inits and Splits.
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: numbers out of range
// (FirstError).

#ifndef VRANK_GRAPH_REPLAY_CREATION_MEMBERS_H_
#define VRANK_GRAPH_REPLAY_CREATION_MEMBERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/replay/communicators.h"
#include "graph/replay/engine.h"
#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/numbered.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

// What a member learns at the end of a meeting.
struct CreationResult {
  CreationMeeting::Joiner joiner;
  Stamp host;
  uint64_t value = 0;
};

template <class Step>
class CreationMembers {
 public:
  using Comm = Communicator<Step>;
  using Joiner = CreationMeeting::Joiner;

  CreationMembers(EngineObserver* observer, RankTable& ranks, Worklist& worklist,
                  Futures<Step>& futures, Communicators<Step>& communicators,
                  HostAnswers<Step> answers, FirstError& error)
      : observer_(observer),
        ranks_(ranks),
        worklist_(worklist),
        futures_(futures),
        communicators_(communicators),
        answers_(answers),
        error_(error) {}

  // The op's rank as a member of a meeting. Where its host does not wait, the op's
  // token gets the end of the meeting as its own.
  Joiner Joining(RankState& r, const Op& op);
  // Whether the host continues: it blocks once all members that live in its process
  // have joined.
  static bool GoesOn(RankState& r, const Comm& c, const CreationMeeting& meeting,
                     const Op& op);
  static Stamp LatestHost(const CreationMeeting& meeting);

  // The rank's communicator exists from here on.
  void Bind(const Joiner& joiner, uint32_t communicator, uint32_t index);
  // The meeting is over.
  void Finish(const std::vector<CreationResult>& members);
  // A member gives up before the others have come. It becomes one that has released the
  // communicator at once.
  void Withdraw(RankState& r, Joiner& joiner);

 private:
  // Of a joiner whose host does not wait: its token has `end`.
  void ResolveToken(RankState& r, const Joiner& joiner, const Stamp& end);

  EngineObserver* const observer_;
  RankTable& ranks_;
  Worklist& worklist_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  HostAnswers<Step> answers_;
  FirstError& error_;
};

template <class Step>
CreationMeeting::Joiner CreationMembers<Step>::Joining(RankState& r, const Op& op) {
  Joiner joiner{r.index, op.a, op.b, r.cursor, r.host};
  if (op.value == 0)
    return joiner;
  Token& token = TokenAt(r, static_cast<uint32_t>(op.value), error_);
  if (token.future != kNone)
    futures_.Unreference(token.future);
  // Referred to by the token and by the joiner.
  joiner.token = static_cast<uint32_t>(op.value);
  joiner.future = futures_.New(2, r.host.ns, kNone);
  futures_[joiner.future].end = Stamp{};
  token.future = joiner.future;
  return joiner;
}

template <class Step>
bool CreationMembers<Step>::GoesOn(RankState& r, const Comm& c,
                                   const CreationMeeting& meeting, const Op& op) {
  if (op.value != 0)
    return true;
  if (c.repeats) {
    const Creation& call = r.program->details().creations[op.b];
    for (uint32_t i = 0; i < c.size(); ++i) {
      if (c.members[i] == r.world_rank && meeting.joiners[i].rank == kNone &&
          !std::binary_search(call.excluded.begin(), call.excluded.end(), i))
        return true;
    }
  }
  r.blocked = Blocked::kCreation;
  return false;
}

template <class Step>
Stamp CreationMembers<Step>::LatestHost(const CreationMeeting& meeting) {
  Stamp latest;
  for (const Joiner& joiner : meeting.joiners) {
    if (joiner.rank != kNone)
      Step::Raise(latest, joiner.host);
  }
  return latest;
}

template <class Step>
void CreationMembers<Step>::Bind(const Joiner& joiner, uint32_t communicator,
                                 uint32_t index) {
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

// Hosts are raised before any is answered: one with several members continues at the
// latest of its ends, and every answer states that.
template <class Step>
void CreationMembers<Step>::Finish(const std::vector<CreationResult>& members) {
  for (const CreationResult& each : members) {
    if (each.joiner.future == kNone && !each.joiner.withdrawn && !each.joiner.passed)
      Step::HostWait(ranks_[each.joiner.rank].host, each.host);
  }
  for (const CreationResult& each : members) {
    const Joiner& joiner = each.joiner;
    RankState& r = ranks_[joiner.rank];
    if (joiner.withdrawn)
      continue;
    if (r.blocked == Blocked::kForming)
      worklist_.Wake(r);
    if (joiner.future != kNone) {
      Stamp end = joiner.host;
      Step::HostWait(end, each.host);
      ResolveToken(r, joiner, end);
      answers_.Answer(r, joiner.op, end, each.value);
      continue;
    }
    if (joiner.passed) {
      Stamp end = joiner.host;
      Step::HostWait(end, each.host);
      if (r.options.real)
        observer_->OnHostAnswer(r.world_rank, joiner.op, end, end, 0, each.value);
      continue;
    }
    answers_.Answer(r, joiner.op, r.host, each.value);
    if (r.blocked == Blocked::kCreation && r.cursor == joiner.op) {
      Advance(r);
      worklist_.Wake(r);
    }
  }
  for (const CreationResult& each : members)
    ranks_[each.joiner.rank].program->CreationDone(each.joiner.details);
}

template <class Step>
void CreationMembers<Step>::Withdraw(RankState& r, Joiner& joiner) {
  answers_.Answer(r, joiner.op, r.host, 0);
  joiner.withdrawn = true;
  if (joiner.future == kNone)
    return;
  // A query that was answered "not yet" was answered right: it ends because of this.
  futures_.ForEachWaiter(joiner.future, [](Waiter& waiter) {
    if (waiter.kind == Waiter::Kind::kQueryCheck)
      waiter.kind = Waiter::Kind::kNobody;
  });
  ResolveToken(r, joiner, r.host);
}

template <class Step>
void CreationMembers<Step>::ResolveToken(RankState& r, const Joiner& joiner,
                                         const Stamp& end) {
  Token& token = r.tokens[joiner.token];
  if (token.future == joiner.future) {
    token.end = end;
    token.future = kNone;
    futures_.Unreference(joiner.future);
  }
  futures_.Resolve(joiner.future, end);
  futures_.Unreference(joiner.future);
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_CREATION_MEMBERS_H_
