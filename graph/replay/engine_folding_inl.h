// One rank played for several, in EngineImpl. Included by engine_impl.h.
//
// Ranks that read one program are stopped at horizons. Where nothing moves and enough
// has been played since the last look, those in one state that have like communicators
// are folded (live_colours.h): one of them, the real one if there is one, goes on for
// all. Then there are no horizons. An op that would part them holds its host up until
// nothing else moves; then every rank is unfolded, and goes on for itself until the
// next look. So what a program does later need not be known, and nothing is undone.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_FOLDING_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_FOLDING_INL_H_

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

// Nothing else moves. True: now something does.
template <class Step>
bool EngineImpl<Step>::ChangeFolding() {
  if (shared_programs_ == 0)
    return false;
  if (folding_ != nullptr) {
    if (unfold_wanted_)
      Unfold();
    return worklist_.has_ranks();
  }
  if (TimeToFold() && SettledForFolding() && !Fold())
    fold_step_ *= 2;
  return RaiseHorizons();
}

template <class Step>
bool EngineImpl<Step>::RaiseHorizons() {
  bool raised = false;
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    const uint64_t horizon = programs_.horizon(i);
    if (horizon == ProgramReaders::kNoHorizon)
      continue;
    const bool stopped = programs_.IsStoppedAtHorizon(i);
    if (folding_ != nullptr)
      programs_.SetHorizon(i, ProgramReaders::kNoHorizon);
    else if (stopped)
      programs_.SetHorizon(i, horizon + fold_step_);
    if (stopped)
      programs_.WakeStarved(i);
    raised |= stopped;
  }
  return raised;
}

template <class Step>
bool EngineImpl<Step>::TimeToFold() const {
  uint64_t played = 0, ranks = 0;
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    const size_t readers = programs_.ranks(i).size();
    if (readers < 2)
      continue;
    ranks += readers;
    played += readers * (ranks_[programs_.ranks(i)[0]].cursor - looked_at_[i]);
  }
  return played >= fold_step_ * ranks;
}

// Nobody is about to create or release something, no question is open, and what is on
// its way in communicators treats their members alike or tells them apart by index.
template <class Step>
bool EngineImpl<Step>::SettledForFolding() const {
  if (!forming_.empty() || !undecided_.empty() || some_aborted_)
    return false;
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
  for (uint32_t i = 0; i < queues_.taken(); ++i) {
    const LaneQueue& q = queues_[i];
    const RankState& r = ranks_[q.rank];
    for (size_t at = q.head; at < q.ops.size(); ++at) {
      const QueuedOp& op = q.ops[at];
      if (op.kind == OpKind::kCollective &&
          !CollectiveRendezvous<Step>::IsSymmetric(
              r.program->details().collectives[op.b].operation))
        return false;
    }
  }
  return true;
}

// False: too few ranks have one timeline.
template <class Step>
bool EngineImpl<Step>::Fold() {
  for (uint32_t i = 0; i < programs_.size(); ++i)
    looked_at_[i] = ranks_[programs_.ranks(i)[0]].cursor;
  PricePending();
  std::vector<uint32_t> communicators;
  const std::vector<LiveCommunicator> live = LiveCommunicators(&communicators);
  const LiveColouring colouring = RefineLiveColours(InitialColours(), live);
  if (colouring.colours > ranks_.size() / 2)
    return false;
  folding_ = std::make_unique<Folding>();
  MakeFamilies(colouring, live, communicators);
  const auto pending = PendingQueues();
  PlayFamilies(pending);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (folding_->played_by[rank] != rank)
      PutToSleep(rank, pending[rank]);
  }
  programs_.DropPlayed();
  return true;
}

// Communicators that are played as one have one price for what their members have
// issued already. What they issue later is held against it then (HoldsFolded).
template <class Step>
void EngineImpl<Step>::PricePending() {
  std::map<uint32_t, std::set<std::string>> transfers;  // by communicator
  for (uint32_t i = 0; i < queues_.taken(); ++i) {
    const LaneQueue& q = queues_[i];
    const RankState& r = ranks_[q.rank];
    for (size_t at = q.head; at < q.ops.size(); ++at) {
      const QueuedOp& op = q.ops[at];
      if (op.kind != OpKind::kCollective && op.kind != OpKind::kTransfers)
        continue;
      const LocalCommunicator& local = r.communicators[op.a];
      Comm& c = communicators_[local.communicator];
      const Details& details = r.program->details();
      if (op.kind == OpKind::kCollective) {
        const CollectiveCall& call = details.collectives[op.b];
        if (call.root < c.size())  // else an error, once it arrives
          c.CostOf(call, *network_);
        continue;
      }
      for (const Transfer& transfer : details.transfer_groups[op.b]) {
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
        transfers[local.communicator].insert(std::move(text));
      }
    }
  }
  for (uint32_t i = 0; i < communicators_.taken(); ++i)
    communicators_[i].prices_pending.clear();
  for (const auto& [communicator, texts] : transfers) {
    for (const std::string& text : texts)
      communicators_[communicator].prices_pending += text;
  }
}

template <class Step>
std::vector<std::vector<uint32_t>> EngineImpl<Step>::PendingQueues() const {
  std::vector<std::vector<uint32_t>> pending(ranks_.size());
  for (uint32_t i = 0; i < queues_.taken(); ++i) {
    if (!queues_[i].empty())
      pending[queues_[i].rank].push_back(i);
  }
  return pending;
}

// By state. Looks for no more than a few states of one program.
template <class Step>
std::vector<uint32_t> EngineImpl<Step>::InitialColours() const {
  constexpr size_t kStates = 32;
  std::vector<uint32_t> colour(ranks_.size());
  std::vector<bool> alone(ranks_.size());  // has a queue whose lane has been released
  for (uint32_t i = 0; i < queues_.taken(); ++i) {
    if (!queues_[i].empty() && queues_[i].detached)
      alone[queues_[i].rank] = true;
  }
  for (uint32_t program = 0; program < programs_.size(); ++program) {
    std::vector<uint32_t> states;
    for (const uint32_t rank : programs_.ranks(program)) {
      const RankState& r = ranks_[rank];
      colour[rank] = rank;
      if (alone[rank])
        continue;
      // The real rank of a program is played.
      const auto like =
          r.options.real || r.timeline != nullptr
              ? states.end()
              : std::find_if(states.begin(), states.end(),
                             [&](uint32_t s) { return AreLike(ranks_[s], r); });
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
std::vector<LiveCommunicator> EngineImpl<Step>::LiveCommunicators(
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
void EngineImpl<Step>::MakeFamilies(const LiveColouring& colouring,
                                    const std::vector<LiveCommunicator>& live,
                                    const std::vector<uint32_t>& communicators) {
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
void EngineImpl<Step>::PlayFamilies(const std::vector<std::vector<uint32_t>>& pending) {
  const Folding& f = *folding_;
  for (const Folding::Family& family : f.families) {
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
      return q.rank == c.ranks[m] && !q.empty() ? ranks_[by].lanes[q.lane].queue
                                                : kNone;
    });
  }
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
  std::vector<std::vector<uint32_t>> played(pending.size());
  for (uint32_t rank = 0; rank < pending.size(); ++rank) {
    if (f.played_by[rank] == rank)
      played[rank] = pending[rank];
  }
  RecountOperations(played);
}

// Another rank is played for this one, which gives back what it holds.
template <class Step>
void EngineImpl<Step>::PutToSleep(uint32_t rank, const std::vector<uint32_t>& queues) {
  RankState& r = ranks_[rank];
  cloned_futures_.clear();
  const auto drop = [this](uint32_t future) {
    while (future != kNone && cloned_futures_.try_emplace(future, kNone).second)
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
    LaneQueue& q = queues_[queue];
    for (size_t i = q.head; i < q.ops.size(); ++i)
      drop(q.ops[i].future);
    std::vector<QueuedOp>().swap(q.ops);
    q.head = 0;
    q.meeting = LaneQueue::Meeting::kNotArrived;
    queues_.Drop(queue);
  }
  for (const auto& [future, none] : cloned_futures_) {
    for (uint32_t at = futures_[future].waiters; at != kNone;) {
      const uint32_t next = waiters_[at].next;
      waiters_.Drop(at);
      at = next;
    }
    futures_.Drop(future);
  }
  static_cast<RankProgress&>(r) = RankProgress(launch_queue_depth_);
  r.blocked = Blocked::kPlayed;
  r.program->ReaderPassed(r.reader, ~uint64_t{0});
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_FOLDING_INL_H_
