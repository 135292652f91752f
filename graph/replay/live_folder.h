// Folds the ranks of a running engine: finds those that are in one state and have like
// communicators (live_colours.h), and lets one of them, the real one if there is one,
// run for all (folding.h).
//
// Only between turns, where nothing moves. When that is worth a try is LiveFolding's.
//
// Thread rule: one thread. Ranks, queues and communicators are indices. No errors.

#ifndef VRANK_GRAPH_REPLAY_LIVE_FOLDER_H_
#define VRANK_GRAPH_REPLAY_LIVE_FOLDER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "graph/replay/communicators.h"
#include "graph/replay/condition.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/futures.h"
#include "graph/replay/lane_queues.h"
#include "graph/replay/likeness.h"
#include "graph/replay/live_colours.h"
#include "graph/replay/network_model.h"
#include "graph/replay/pending_operations.h"
#include "graph/replay/program_readers.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

template <class Step>
class LiveFolder {
 public:
  LiveFolder(uint32_t launch_queue_depth, const NetworkModel* network, RankTable& ranks,
             ProgramReaders& programs, LaneQueues& queues, Futures<Step>& futures,
             Communicators<Step>& communicators, CurrentFolding& folding)
      : launch_queue_depth_(launch_queue_depth),
        network_(network),
        ranks_(ranks),
        programs_(programs),
        queues_(queues),
        futures_(futures),
        communicators_(communicators),
        folding_(folding) {}

  // What is in flight in communicators treats their members alike or tells them apart
  // by index, and no host is about to create or release something or has a query open.
  bool Settled() const;
  // False: too few ranks have one timeline. REQUIRES: Settled(); nothing is folded.
  bool Fold();

 private:
  using Comm = Communicator<Step>;
  using QueuesByRank = std::vector<std::vector<uint32_t>>;

  void PricePending();
  void AppendPrices(const RankState& r, const QueuedOp& op,
                    std::set<std::string>* texts);
  std::vector<uint32_t> InitialColours() const;
  std::vector<LiveCommunicator> LiveCommunicators(
      std::vector<uint32_t>* communicators) const;
  void ChoosePlayed(const LiveColouring& colouring);
  void MakeFamilies(const LiveColouring& colouring,
                    const std::vector<LiveCommunicator>& live,
                    const std::vector<uint32_t>& communicators);
  void PlayFamilies(const QueuesByRank& pending);
  void PlayInFirstInstance(const Folding::Family& family);
  void PutToSleep(uint32_t rank, const std::vector<uint32_t>& queues);

  const uint32_t launch_queue_depth_;
  const NetworkModel* const network_;
  RankTable& ranks_;
  ProgramReaders& programs_;
  LaneQueues& queues_;
  Futures<Step>& futures_;
  Communicators<Step>& communicators_;
  CurrentFolding& folding_;
};

template <class Step>
bool LiveFolder<Step>::Settled() const {
  for (const auto& r : ranks_.all()) {
    if (r->blocked == Blocked::kCreation || r->blocked == Blocked::kLeader ||
        r->blocked == Blocked::kQuery || r->blocked == Blocked::kRelease ||
        r->blocked == Blocked::kForming)
      return false;
  }
  for (uint32_t i = 0; i < communicators_.taken(); ++i) {
    if (!communicators_[i].Settled())
      return false;
  }
  bool symmetric = true;
  queues_.ForEachOp([&](const RankState& r, const QueuedOp& op) {
    if (op.kind == OpKind::kCollective)
      symmetric = symmetric && CollectiveRendezvous<Step>::IsSymmetric(
                                   r.program->details().collectives[op.b].operation);
  });
  return symmetric;
}

template <class Step>
bool LiveFolder<Step>::Fold() {
  PricePending();
  std::vector<uint32_t> communicators;
  const std::vector<LiveCommunicator> live = LiveCommunicators(&communicators);
  const LiveColouring colouring = RefineLiveColours(InitialColours(), live);
  if (colouring.colours > ranks_.size() / 2)
    return false;
  folding_.Begin();
  ChoosePlayed(colouring);
  MakeFamilies(colouring, live, communicators);
  const QueuesByRank pending = queues_.PendingByRank();
  PlayFamilies(pending);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (folding_->played_by[rank] != rank)
      PutToSleep(rank, pending[rank]);
  }
  programs_.DropPlayed();
  return true;
}

// Communicators that run as one have one price for what their members have issued
// already. What they issue later is held against it then (FoldedOps).
template <class Step>
void LiveFolder<Step>::PricePending() {
  std::map<uint32_t, std::set<std::string>> transfers;  // by communicator
  queues_.ForEachOp([&](const RankState& r, const QueuedOp& op) {
    if (op.kind == OpKind::kTransfers) {
      AppendPrices(r, op, &transfers[r.communicators[op.a].communicator]);
    } else if (op.kind == OpKind::kCollective) {
      Comm& c = communicators_[r.communicators[op.a].communicator];
      const CollectiveCall& call = r.program->details().collectives[op.b];
      if (call.root < c.size())  // else an error, once it arrives
        c.CostOf(call, *network_);
    }
  });
  for (uint32_t i = 0; i < communicators_.taken(); ++i)
    communicators_[i].prices_pending.clear();
  for (const auto& [communicator, texts] : transfers) {
    for (const std::string& text : texts)
      communicators_[communicator].prices_pending += text;
  }
}

template <class Step>
void LiveFolder<Step>::AppendPrices(const RankState& r, const QueuedOp& op,
                                    std::set<std::string>* texts) {
  const LocalCommunicator& local = r.communicators[op.a];
  const Comm& c = communicators_[local.communicator];
  for (const Transfer& transfer : r.program->details().transfer_groups[op.b]) {
    const uint32_t peer = PeerIndex(transfer, op.number(), c.size());
    const bool send = transfer.is_send != 0;
    const uint32_t from = send ? local.index : peer;
    const uint32_t to = send ? peer : local.index;
    std::string text;
    AppendNumbers(&text,
                  {from, to, transfer.bytes,
                   network_->TransferCreditBytes(c.members[from], c.members[to])});
    AppendCost(&text,
               network_->Transfer(transfer.bytes, c.members[from], c.members[to]));
    texts->insert(std::move(text));
  }
}

// By state. Distinguishes no more than a few states of one program.
template <class Step>
std::vector<uint32_t> LiveFolder<Step>::InitialColours() const {
  constexpr size_t kStates = 32;
  std::vector<uint32_t> colour(ranks_.size());
  std::vector<bool> alone(ranks_.size());  // has a queue whose lane has been released
  const Likeness<Step> likeness(queues_, futures_);
  static_cast<const LaneQueues&>(queues_).ForEachPending(
      [&](uint32_t, const LaneQueue& q) {
        if (q.detached)
          alone[q.rank] = true;
      });
  for (uint32_t program = 0; program < programs_.size(); ++program) {
    std::vector<uint32_t> states;
    for (const uint32_t rank : programs_.ranks(program)) {
      const RankState& r = ranks_[rank];
      colour[rank] = rank;
      if (alone[rank])
        continue;
      // The real rank of a program runs.
      const auto like =
          r.options.real || r.timeline != nullptr
              ? states.end()
              : std::find_if(states.begin(), states.end(), [&](uint32_t s) {
                  return likeness.AreAlike(ranks_[s], r);
                });
      if (like != states.end())
        colour[rank] = *like;
      else if (states.size() < kStates)
        states.push_back(rank);
    }
  }
  return colour;
}

// Those that ranks have; `communicators`: which they are.
template <class Step>
std::vector<LiveCommunicator> LiveFolder<Step>::LiveCommunicators(
    std::vector<uint32_t>* communicators) const {
  std::vector<LiveCommunicator> live;
  std::vector<uint32_t> place_of(communicators_.taken(), kNone);
  for (const auto& r : ranks_.all()) {
    r->communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
      if (local.state != LocalCommunicator::State::kBound)
        return;
      uint32_t& place = place_of[local.communicator];
      const Comm& c = communicators_[local.communicator];
      if (place == kNone) {
        place = static_cast<uint32_t>(live.size());
        live.push_back(
            {c.ranks, std::vector<uint32_t>(c.size()), c.apart, c.Condition()});
        communicators->push_back(local.communicator);
      }
      live[place].numbers[local.index] = number;
    });
  }
  return live;
}

template <class Step>
void LiveFolder<Step>::ChoosePlayed(const LiveColouring& colouring) {
  Folding& f = *folding_;
  std::vector<uint32_t> played(colouring.colours, kNone);
  f.played_by.resize(ranks_.size());
  f.stands_for.resize(ranks_.size());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    uint32_t& by = played[colouring.colour[rank]];
    if (by == kNone)
      by = rank;
    f.played_by[rank] = by;
    f.stands_for[by].push_back(rank);
  }
}

template <class Step>
void LiveFolder<Step>::MakeFamilies(const LiveColouring& colouring,
                                    const std::vector<LiveCommunicator>& live,
                                    const std::vector<uint32_t>& communicators) {
  Folding& f = *folding_;
  f.families.resize(colouring.families);
  f.family_of.assign(communicators_.taken(), kNone);
  f.seats.resize(communicators_.taken());
  // By family: the first member of the first instance that has a colour.
  std::vector<absl::flat_hash_map<uint32_t, uint32_t>> first(colouring.families);
  for (size_t i = 0; i < live.size(); ++i) {
    const uint32_t number = colouring.family[i];
    Folding::Family& family = f.families[number];
    const bool is_first = family.instances.empty();
    family.instances.push_back(communicators[i]);
    family.absentees += communicators_[communicators[i]].absentees();
    f.family_of[communicators[i]] = number;
    std::vector<uint32_t>& seats = f.seats[communicators[i]];
    for (uint32_t m = 0; m < live[i].ranks.size(); ++m) {
      const uint32_t rank = live[i].ranks[m];
      const bool absent = rank == kNone;
      seats.push_back(
          absent ? kNone
                 : first[number].try_emplace(colouring.colour[rank], m).first->second);
      if (is_first && !absent && seats[m] != m)
        family.whole = false;
    }
    family.colours = static_cast<uint32_t>(first[number].size());
  }
}

// From here on operations meet in the first instance of each family.
template <class Step>
void LiveFolder<Step>::PlayFamilies(const QueuesByRank& pending) {
  const Folding& f = *folding_;
  for (const Folding::Family& family : f.families)
    PlayInFirstInstance(family);
  for (const auto& r : ranks_.all()) {
    if (f.played_by[r->index] != r->index)
      continue;
    r->communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
      if (local.state != LocalCommunicator::State::kBound)
        return;
      LocalCommunicator& own = r->communicators[number];
      own.played = f.FamilyOf(own.communicator).instances[0];
      own.place = f.seats[own.communicator][own.index];
    });
  }
  QueuesByRank played(pending.size());
  for (uint32_t rank = 0; rank < pending.size(); ++rank) {
    if (f.played_by[rank] == rank)
      played[rank] = pending[rank];
  }
  RecountOperations(played, ranks_, queues_, communicators_);
}

template <class Step>
void LiveFolder<Step>::PlayInFirstInstance(const Folding::Family& family) {
  const Folding& f = *folding_;
  Comm& c = communicators_[family.instances[0]];
  std::vector<uint32_t> seats = f.seats[family.instances[0]];
  for (uint32_t m = 0; m < c.size(); ++m) {
    if (seats[m] != m)
      seats[m] = kNone;
    c.absent[m] = seats[m] == kNone;
  }
  c.TakeOver(c, seats, [&](uint32_t m, uint32_t queue) {
    const uint32_t by = f.played_by[c.ranks[m]];
    if (by == c.ranks[m])
      return queue;
    // What is over names a queue that may be another rank's now.
    const LaneQueue& q = queues_[queue];
    return q.rank == c.ranks[m] && !q.empty() ? ranks_[by].lanes[q.lane].queue : kNone;
  });
}

// Another rank runs for this one, which gives back what it holds.
template <class Step>
void LiveFolder<Step>::PutToSleep(uint32_t rank, const std::vector<uint32_t>& queues) {
  RankState& r = ranks_[rank];
  absl::flat_hash_set<uint32_t> dropped;
  const auto drop = [&](uint32_t future) {
    while (future != kNone && dropped.insert(future).second)
      future = futures_[future].previous;
  };
  for (const Token& token : r.tokens)
    drop(token.future);
  r.communicators.ForEach([&](uint32_t number, const LocalCommunicator& local) {
    drop(local.last_future);
    if (local.last_future != kNone)
      r.communicators[number].last_future = kNone;
  });
  for (const uint32_t queue : queues) {
    const LaneQueue& q = queues_[queue];
    for (size_t i = q.head; i < q.ops.size(); ++i)
      drop(q.ops[i].future);
    queues_.Discard(queue);
  }
  for (const uint32_t future : dropped)
    futures_.Discard(future);
  static_cast<RankProgress&>(r) = RankProgress(launch_queue_depth_);
  r.blocked = Blocked::kPlayed;
  r.program->ReaderPassed(r.reader, ~uint64_t{0});
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_LIVE_FOLDER_H_
