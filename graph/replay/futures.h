// Ends that are not known yet, and what waits for each of them (lane.h).
//
// Thread rule: one thread. Futures and waiters are addressed by index. No errors.

#ifndef VRANK_GRAPH_REPLAY_FUTURES_H_
#define VRANK_GRAPH_REPLAY_FUTURES_H_

#include <cstdint>

#include "graph/program/pool.h"
#include "graph/replay/host_answers.h"
#include "graph/replay/lane.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class Futures {
 public:
  Futures(RankTable& ranks, Worklist& worklist, HostAnswers<Step> answers)
      : ranks_(ranks), worklist_(worklist), answers_(answers) {}

  Future& operator[](uint32_t future) { return futures_[future]; }
  const Future& operator[](uint32_t future) const { return futures_[future]; }

  uint32_t New(uint32_t references, int64_t lower_bound, uint32_t queue) {
    const uint32_t index = futures_.Take();
    Future& future = futures_[index];
    future.lower_bound = lower_bound;
    future.references = references;
    future.waiters = kNone;
    future.previous = kNone;
    future.queue = queue;
    future.known = false;
    return index;
  }
  void Unreference(uint32_t future) {
    if (--futures_[future].references == 0)
      futures_.Drop(future);
  }

  void AddWaiter(uint32_t future, const Waiter& waiter) {
    const uint32_t index = waiters_.Take();
    waiters_[index] = waiter;
    waiters_[index].next = futures_[future].waiters;
    futures_[future].waiters = index;
  }
  // Calls visit(waiter), which may change what the waiter is.
  template <class Visit>
  void ForEachWaiter(uint32_t future, Visit visit) {
    for (uint32_t at = futures_[future].waiters; at != kNone; at = waiters_[at].next)
      visit(waiters_[at]);
  }

  // The end has become known: wakes or answers what waits for it.
  void Resolve(uint32_t index, const Stamp& end);

  // A second future like this one, with waiters of its own: calls adapt(waiter) for
  // each of them.
  template <class Adapt>
  uint32_t Copy(uint32_t future, Adapt adapt);
  // Drops it with its waiters, whatever refers to it.
  void Discard(uint32_t future);
  // The same things wait, in the same order, as far as they are no queues or ranks.
  bool WaitersAreAlike(const Future& a, const Future& b) const;

 private:
  RankTable& ranks_;
  Worklist& worklist_;
  HostAnswers<Step> answers_;
  Pool<Future> futures_;
  Pool<Waiter> waiters_;
};

template <class Step>
void Futures<Step>::Resolve(uint32_t index, const Stamp& end) {
  Future& future = futures_[index];
  future.end = end;
  future.known = true;
  for (uint32_t at = future.waiters; at != kNone;) {
    const Waiter& waiter = waiters_[at];
    switch (waiter.kind) {
      case Waiter::Kind::kQueue:
        worklist_.AddQueue(waiter.target);
        break;
      case Waiter::Kind::kHost:
        worklist_.Wake(ranks_[waiter.target]);
        break;
      case Waiter::Kind::kQueryCheck:
        answers_.CheckQuery(ranks_[waiter.target], waiter.host_ns, waiter.answer, end);
        break;
      case Waiter::Kind::kHelper:
        answers_.AnswerHelper(ranks_[waiter.target], waiter.op, waiter.host_ns, end);
        break;
      case Waiter::Kind::kNobody:
        break;
    }
    const uint32_t next = waiter.next;
    waiters_.Drop(at);
    at = next;
  }
  future.waiters = kNone;
}

template <class Step>
template <class Adapt>
uint32_t Futures<Step>::Copy(uint32_t future, Adapt adapt) {
  const uint32_t own = futures_.Take();
  Future& copy = futures_[own];
  copy = futures_[future];
  uint32_t* link = &copy.waiters;
  for (uint32_t at = copy.waiters; at != kNone; at = waiters_[at].next) {
    const uint32_t made = waiters_.Take();
    Waiter& waiter = waiters_[made];
    waiter = waiters_[at];
    adapt(waiter);
    *link = made;
    link = &waiter.next;
  }
  return own;
}

template <class Step>
void Futures<Step>::Discard(uint32_t future) {
  for (uint32_t at = futures_[future].waiters; at != kNone;) {
    const uint32_t next = waiters_[at].next;
    waiters_.Drop(at);
    at = next;
  }
  futures_.Drop(future);
}

template <class Step>
bool Futures<Step>::WaitersAreAlike(const Future& a, const Future& b) const {
  uint32_t i = a.waiters, j = b.waiters;
  while (i != kNone && j != kNone && waiters_[i].kind == waiters_[j].kind &&
         waiters_[i].answer == waiters_[j].answer &&
         waiters_[i].host_ns == waiters_[j].host_ns &&
         waiters_[i].op == waiters_[j].op) {
    i = waiters_[i].next;
    j = waiters_[j].next;
  }
  return i == kNone && j == kNone;
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_FUTURES_H_
