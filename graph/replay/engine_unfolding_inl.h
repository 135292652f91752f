// Every rank for itself again, in EngineImpl. Included by engine_impl.h.
//
// A rank that was not played gets the state of the one that was, with queues and
// futures of its own; the operations of a family, as they are under way in its first
// instance, are under way in each of them. May be called between any two turns.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_UNFOLDING_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_UNFOLDING_INL_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
void EngineImpl<Step>::Unfold() {
  // Programs that are unfolded again and again are folded more seldom.
  constexpr uint64_t kLongestStep = 4096;
  const std::unique_ptr<Folding> folding = std::move(folding_);
  unfold_wanted_ = false;
  const auto pending = PendingQueues();
  std::vector<Queues> queues(ranks_.size());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const uint32_t by = folding->played_by[rank];
    if (by != rank)
      Clone(ranks_[by], ranks_[rank], pending[by], &queues[rank]);
  }
  CloneWork(*folding, queues);
  for (const Folding::Family& family : folding->families) {
    // The first one last, since the others are made from it.
    for (size_t i = family.instances.size(); i-- > 0;) {
      Comm& c = communicators_[family.instances[i]];
      const auto queue_of = [&](uint32_t m, uint32_t queue) {
        const uint32_t rank = c.ranks[m];
        if (folding->played_by[rank] == rank)
          return queue;
        const auto own = queues[rank].find(queue);
        return own == queues[rank].end() ? kNone : own->second;
      };
      c.TakeOver(communicators_[family.instances[0]],
                 folding->seats[family.instances[i]], queue_of);
      for (uint32_t m = 0; m < c.size(); ++m) {
        c.absent[m] = c.ranks[m] == kNone;
        c.released += static_cast<uint32_t>(
            std::count(family.released.begin(), family.released.end(),
                       folding->seats[family.instances[i]][m]));
      }
    }
  }
  for (const auto& r : ranks_.all()) {
    r->communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
      LocalCommunicator& own = r->communicators[number];
      own.played = local.communicator;
      own.place = local.index;
    });
  }
  RecountOperations(PendingQueues());
  for (const auto& r : ranks_.all()) {
    if (r->blocked == Blocked::kFolding)
      worklist_.Wake(*r);
  }
  fold_step_ = std::min(fold_step_ * 2, std::max(fold_step_, kLongestStep));
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    looked_at_[i] = ranks_[programs_.ranks(i)[0]].cursor;
    if (programs_.ranks(i).size() > 1)
      programs_.SetHorizon(i, looked_at_[i] + fold_step_);
  }
}

template <class Step>
void EngineImpl<Step>::Clone(const RankState& from, RankState& to,
                             const std::vector<uint32_t>& pending, Queues* queues) {
  static_cast<RankProgress&>(to) = from;
  to.program->ReaderJoins(to.reader, from.reader);
  // A question is the real rank's alone. The others see whether they must wait for the
  // answer.
  if (from.blocked == Blocked::kQuery)
    worklist_.Wake(ranks_[to.index]);
  for (const uint32_t queue : pending)
    queues->try_emplace(queue, queues_.Take());
  cloned_futures_.clear();
  for (const auto& [theirs, own] : *queues) {
    LaneQueue& q = queues_[own];
    q = queues_[theirs];
    q.rank = to.index;
    q.host_waits = q.host_waits && from.blocked != Blocked::kQuery;
    for (size_t i = q.head; i < q.ops.size(); ++i)
      q.ops[i].future = CloneFuture(q.ops[i].future, from, to, *queues);
  }
  for (Lane& lane : to.lanes) {
    if (lane.queue != kNone)
      lane.queue = queues->at(lane.queue);
  }
  for (Token& token : to.tokens)
    token.future = CloneFuture(token.future, from, to, *queues);
  to.communicators.resize(from.communicators.size());
  from.communicators.ForEach([&](uint32_t number, const LocalCommunicator& theirs) {
    LocalCommunicator& own = to.communicators[number];
    const uint32_t communicator = own.communicator, index = own.index;
    own = theirs;
    own.communicator = communicator;
    own.index = index;
    own.last_future = CloneFuture(theirs.last_future, from, to, *queues);
  });
}

template <class Step>
uint32_t EngineImpl<Step>::CloneFuture(uint32_t future, const RankState& from,
                                       const RankState& to, const Queues& queues) {
  uint32_t first = kNone, *link = &first;
  // Along the chain of what comes before it.
  while (future != kNone) {
    const auto known = cloned_futures_.find(future);
    if (known != cloned_futures_.end()) {
      *link = known->second;
      break;
    }
    const uint32_t own = futures_.Take();
    cloned_futures_.emplace(future, own);
    *link = own;
    Future& copy = futures_[own];
    copy = futures_[future];
    const auto queue = queues.find(copy.queue);
    copy.queue = queue == queues.end() ? kNone : queue->second;
    uint32_t* waiter_link = &copy.waiters;
    for (uint32_t at = copy.waiters; at != kNone; at = waiters_[at].next) {
      const uint32_t made = waiters_.Take();
      Waiter& waiter = waiters_[made];
      waiter = waiters_[at];
      if (waiter.kind == Waiter::Kind::kQueue)
        waiter.target = queues.at(waiter.target);
      else
        waiter.target = to.index;
      if (waiter.kind == Waiter::Kind::kHost && from.blocked == Blocked::kQuery)
        waiter.kind = Waiter::Kind::kNobody;
      *waiter_link = made;
      waiter_link = &waiter.next;
    }
    future = copy.previous;
    link = &copy.previous;
  }
  return first;
}

// What can be done for a rank that was played can be done for the others.
template <class Step>
void EngineImpl<Step>::CloneWork(const Folding& folding,
                                 const std::vector<Queues>& queues) {
  const auto for_others = [&](uint32_t rank, auto add) {
    for (const uint32_t other : folding.stands_for[rank]) {
      if (other != rank)
        add(other);
    }
  };
  worklist_.Multiply(
      [&](uint32_t queue, auto add) {
        for_others(queues_[queue].rank,
                   [&](uint32_t other) { add(queues[other].at(queue)); });
      },
      for_others);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (folding.played_by[rank] != rank && ranks_[rank].blocked == Blocked::kProgram)
      programs_.Starve(ranks_[rank]);
  }
}

template <class Step>
void EngineImpl<Step>::RecountOperations(
    const std::vector<std::vector<uint32_t>>& pending) {
  for (uint32_t i = 0; i < communicators_.taken(); ++i)
    communicators_[i].operations = 0;
  for (const std::vector<uint32_t>& queues : pending) {
    for (const uint32_t queue : queues) {
      const LaneQueue& q = queues_[queue];
      for (size_t i = q.head; i < q.ops.size(); ++i) {
        if (q.ops[i].kind == OpKind::kCollective || q.ops[i].kind == OpKind::kTransfers)
          ++communicators_[ranks_[q.rank].communicators[q.ops[i].a].played].operations;
      }
    }
  }
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_UNFOLDING_INL_H_
