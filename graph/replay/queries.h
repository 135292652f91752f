// Queries of the host: "has this token, or this lane, ended by now?"
//
// A query of a virtual rank never blocks: the program contains the answer, which is
// only compared with the end. One of a real rank is answered as soon as a lower bound
// of the end passes its clock; else it stays open until the end is known, or until
// nothing moves and the oldest one is decided (DecideOldest).
//
// Thread rule: one thread. Times: nanoseconds of the run. Errors: numbers out of range
// (FirstError).

#ifndef VRANK_GRAPH_REPLAY_QUERIES_H_
#define VRANK_GRAPH_REPLAY_QUERIES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "graph/replay/engine.h"
#include "graph/replay/first_error.h"
#include "graph/replay/futures.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/numbered.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_cursor.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class Queries {
 public:
  Queries(EngineObserver* observer, RankTable& ranks, Worklist& worklist,
          ProgramReaders& programs, LaneQueues& queues, Futures<Step>& futures,
          FirstError& error)
      : observer_(observer),
        ranks_(ranks),
        worklist_(worklist),
        programs_(programs),
        queues_(queues),
        futures_(futures),
        error_(error) {}

  // False: the host is blocked at this op.
  bool Query(RankState& r, const Op& op);
  // The same of a real rank, or of a helper thread of one.
  bool Ask(RankState& r, const Op& op);

  // As in Engine.
  std::optional<Engine::OpenQuery> Oldest() const;
  bool DecideOldest(int64_t not_before_ns);

 private:
  void CheckAnswer(RankState& r, const Op& op);
  void Answer(RankState& r, bool complete, const Stamp& end);
  uint32_t FindOldest() const;
  int64_t BoundBesideQueries(uint32_t asker, int64_t not_before_ns) const;

  EngineObserver* const observer_;
  RankTable& ranks_;
  Worklist& worklist_;
  ProgramReaders& programs_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  FirstError& error_;
};

template <class Step>
bool Queries<Step>::Query(RankState& r, const Op& op) {
  if (r.options.real)
    return Ask(r, op);
  if (op.b == kAnswerUnknown) {
    // The leader has not been answered, so nothing follows in the program either.
    programs_.Starve(r);
    return false;
  }
  CheckAnswer(r, op);
  return true;
}

// Compares the answer that the program was given with the end, once that is known.
template <class Step>
void Queries<Step>::CheckAnswer(RankState& r, const Op& op) {
  if (op.kind == OpKind::kQueryToken) {
    const Token& token = TokenAt(r, op.a, error_);
    if (token.future == kNone) {
      HostAnswers<Step>::CheckQuery(r, r.host.ns, op.b, token.end);
    } else {
      futures_.AddWaiter(token.future,
                         {Waiter::Kind::kQueryCheck, r.index, kNone, op.b, r.host.ns});
    }
    return;
  }
  const Lane& lane = LaneAt(r, op.lane, error_);
  if (lane.queue == kNone)
    HostAnswers<Step>::CheckQuery(r, r.host.ns, op.b, lane.end);
  else
    LaneQueues::Push(r, queues_[lane.queue], LaneQueues::Queued(r, op));
}

// "Not yet" as soon as a lower bound of the end has passed now; the guest hears the
// bound, and answers by itself until then.
template <class Step>
bool Queries<Step>::Ask(RankState& r, const Op& op) {
  int64_t lower_bound = 0;
  if (op.kind == OpKind::kQueryToken) {
    const Token& token = TokenAt(r, op.a, error_);
    if (token.future == kNone) {
      Answer(r, Step::HasEnded(token.end, r.host), token.end);
      return true;
    }
    lower_bound = futures_[token.future].lower_bound;
  } else {
    const Lane& lane = LaneAt(r, op.lane, error_);
    if (lane.queue == kNone) {
      Answer(r, Step::HasEnded(lane.end, r.host), lane.end);
      return true;
    }
    lower_bound = queues_[lane.queue].lower_bound;
  }
  if (lower_bound > r.host.ns) {
    Answer(r, false, Stamp{.ns = lower_bound});
    return true;
  }
  if (op.b != kAnswerUnknown) {  // by a bound of DecideOldest
    CheckAnswer(r, op);
    return true;
  }
  if (op.kind == OpKind::kQueryToken) {
    futures_.AddWaiter(r.tokens[op.a].future,
                       {Waiter::Kind::kHost, r.index, kNone, 0, 0});
  } else {
    queues_[r.lanes[op.lane].queue].host_waits = true;
  }
  r.blocked = Blocked::kQuery;
  return false;
}

template <class Step>
void Queries<Step>::Answer(RankState& r, bool complete, const Stamp& end) {
  const uint32_t answer = complete ? kAnswerComplete : kAnswerNotYet;
  const bool helper = r.next_op->from_helper != 0;
  const uint32_t told = r.next_op->b;
  // A helper's query is no part of what the program did.
  if (told != answer && !helper) {
    // What the guest found out by itself must be what follows here.
    if (told != kAnswerUnknown)
      ++r.told_otherwise;
    r.program->SetAnswer(r.cursor, answer);
    programs_.WakeStarved(r.program_index);
  }
  observer_->OnQueryAnswer(r.world_rank, r.cursor, r.host, complete, end,
                           helper ? 0 : r.launches.Retired(r.host.ns));
}

template <class Step>
uint32_t Queries<Step>::FindOldest() const {
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
std::optional<Engine::OpenQuery> Queries<Step>::Oldest() const {
  const uint32_t oldest = FindOldest();
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
int64_t Queries<Step>::BoundBesideQueries(uint32_t asker, int64_t not_before_ns) const {
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
bool Queries<Step>::DecideOldest(int64_t not_before_ns) {
  const uint32_t oldest = FindOldest();
  if (oldest == kNone)
    return false;
  RankState& r = ranks_[oldest];
  const Op op = *r.next_op;
  // The host no longer waits, but the answer is checked when the end becomes known.
  if (op.kind == OpKind::kQueryToken) {
    futures_.ForEachWaiter(r.tokens[op.a].future, [&](Waiter& waiter) {
      if (waiter.kind == Waiter::Kind::kHost && waiter.target == oldest) {
        waiter.kind = Waiter::Kind::kQueryCheck;
        waiter.answer = kAnswerNotYet;
        waiter.host_ns = r.host.ns;
      }
    });
  } else {
    LaneQueue& q = queues_[r.lanes[op.lane].queue];
    q.host_waits = false;
    QueuedOp check = LaneQueues::Queued(r, op);
    check.b = kAnswerNotYet;
    LaneQueues::Push(r, q, check);
  }
  Answer(r, false, Stamp{.ns = BoundBesideQueries(oldest, not_before_ns)});
  Advance(r);
  worklist_.Wake(r);
  return true;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_QUERIES_H_
