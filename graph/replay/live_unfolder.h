// Unfolds the ranks of a running engine: each runs for itself again.
//
// A rank that did not run gets the state of the one that did, with queues and futures
// of its own; the operations of a family, as they are in flight in its first instance,
// are in flight in each of them.
//
// Thread rule: one thread; between any two turns. Ranks, queues and communicators are
// indices. No errors.

#ifndef VRANK_GRAPH_REPLAY_LIVE_UNFOLDER_H_
#define VRANK_GRAPH_REPLAY_LIVE_UNFOLDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "graph/replay/communicators.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/futures.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/pending_operations.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_table.h"
#include "graph/replay/worklist.h"

namespace vrank::graph {

template <class Step>
class LiveUnfolder {
 public:
  LiveUnfolder(RankTable& ranks, Worklist& worklist, ProgramReaders& programs,
               LaneQueues& queues, Futures<Step>& futures,
               Communicators<Step>& communicators, CurrentFolding& folding)
      : ranks_(ranks),
        worklist_(worklist),
        programs_(programs),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        folding_(folding) {}

  // REQUIRES: some rank runs for others.
  void Unfold();

 private:
  using Comm = Communicator<Step>;
  // The rank's own queues by those of the one that ran.
  using Queues = absl::flat_hash_map<uint32_t, uint32_t>;

  void CloneCommunicators(const Folding& folding, const Folding::Family& family,
                          const std::vector<Queues>& queues);
  void Clone(const RankState& from, RankState& to, const std::vector<uint32_t>& pending,
             Queues* queues);
  uint32_t CloneFuture(uint32_t future, const RankState& from, const RankState& to,
                       const Queues& queues);
  void CloneWork(const Folding& folding, const std::vector<Queues>& queues);

  RankTable& ranks_;
  Worklist& worklist_;
  ProgramReaders& programs_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  CurrentFolding& folding_;
  absl::flat_hash_map<uint32_t, uint32_t> cloned_futures_;  // of the rank at hand
};

template <class Step>
void LiveUnfolder<Step>::Unfold() {
  const std::unique_ptr<Folding> folding = folding_.End();
  const auto pending = queues_.PendingByRank();
  std::vector<Queues> queues(ranks_.size());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const uint32_t by = folding->played_by[rank];
    if (by != rank)
      Clone(ranks_[by], ranks_[rank], pending[by], &queues[rank]);
  }
  CloneWork(*folding, queues);
  for (const Folding::Family& family : folding->families)
    CloneCommunicators(*folding, family, queues);
  for (const auto& r : ranks_.all()) {
    r->communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
      LocalCommunicator& own = r->communicators[number];
      own.played = local.communicator;
      own.place = local.index;
    });
  }
  RecountOperations(queues_.PendingByRank(), ranks_, queues_, communicators_);
  for (const auto& r : ranks_.all()) {
    if (r->blocked == Blocked::kFolding)
      worklist_.Wake(*r);
  }
}

template <class Step>
void LiveUnfolder<Step>::CloneCommunicators(const Folding& folding,
                                            const Folding::Family& family,
                                            const std::vector<Queues>& queues) {
  // The first one last, since the others are made from it.
  for (size_t i = family.instances.size(); i-- > 0;) {
    Comm& c = communicators_[family.instances[i]];
    const std::vector<uint32_t>& seats = folding.seats[family.instances[i]];
    const auto queue_of = [&](uint32_t m, uint32_t queue) {
      const uint32_t rank = c.ranks[m];
      if (folding.played_by[rank] == rank)
        return queue;
      const auto own = queues[rank].find(queue);
      return own == queues[rank].end() ? kNone : own->second;
    };
    c.TakeOver(communicators_[family.instances[0]], seats, queue_of);
    for (uint32_t m = 0; m < c.size(); ++m) {
      c.absent[m] = c.ranks[m] == kNone;
      c.released += static_cast<uint32_t>(
          std::count(family.released.begin(), family.released.end(), seats[m]));
    }
  }
}

template <class Step>
void LiveUnfolder<Step>::Clone(const RankState& from, RankState& to,
                               const std::vector<uint32_t>& pending, Queues* queues) {
  static_cast<RankProgress&>(to) = from;
  to.program->ReaderJoins(to.reader, from.reader);
  // A question is the real rank's alone. The others see whether they must wait for the
  // answer.
  if (from.blocked == Blocked::kQuery)
    worklist_.Wake(to);
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
uint32_t LiveUnfolder<Step>::CloneFuture(uint32_t future, const RankState& from,
                                         const RankState& to, const Queues& queues) {
  const auto adapt = [&](Waiter& waiter) {
    if (waiter.kind == Waiter::Kind::kQueue)
      waiter.target = queues.at(waiter.target);
    else
      waiter.target = to.index;
    if (waiter.kind == Waiter::Kind::kHost && from.blocked == Blocked::kQuery)
      waiter.kind = Waiter::Kind::kNobody;
  };
  uint32_t first = kNone, *link = &first;
  // Along the chain of what comes before it.
  while (future != kNone) {
    const auto known = cloned_futures_.find(future);
    if (known != cloned_futures_.end()) {
      *link = known->second;
      break;
    }
    const uint32_t own = futures_.Copy(future, adapt);
    cloned_futures_.emplace(future, own);
    *link = own;
    Future& copy = futures_[own];
    const auto queue = queues.find(copy.queue);
    copy.queue = queue == queues.end() ? kNone : queue->second;
    future = copy.previous;
    link = &copy.previous;
  }
  return first;
}

// What can proceed of a rank that ran can proceed of the others.
template <class Step>
void LiveUnfolder<Step>::CloneWork(const Folding& folding,
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

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LIVE_UNFOLDER_H_
