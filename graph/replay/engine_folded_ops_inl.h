// Ops played for several ranks in EngineImpl: which may be, and who is told of them.
// Included by engine_impl.h.
//
// Costs may differ between communicators whose members are alike (a pair within a node
// and one across), so each is asked for when it is first needed.

#ifndef VRANK_GRAPH_REPLAY_ENGINE_FOLDED_OPS_INL_H_
#define VRANK_GRAPH_REPLAY_ENGINE_FOLDED_OPS_INL_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/replay/engine_impl.h"

namespace vrank::graph {

template <class Step>
bool EngineImpl<Step>::HoldsFolded(RankState& r, const Op& op) {
  bool holds = false;
  switch (op.kind) {
    case OpKind::kCreateCommunicator:
      break;
    case OpKind::kReleaseCommunicator:
    case OpKind::kCollective:
    case OpKind::kTransfers: {
      const LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
      if (local.state != LocalCommunicator::State::kBound)
        return true;  // an error, and told as such
      Folding::Family& family = folding_->FamilyOf(local.communicator);
      if (op.kind == OpKind::kReleaseCommunicator)
        holds = op.from_helper == 0 &&
                static_cast<ReleaseKind>(op.b) < ReleaseKind::kAbort &&
                op.a < CommunicatorTable::kFirstNumbers;
      else
        holds = op.kind == OpKind::kCollective
                    ? CostsTheSame(family, r.program->details().collectives[op.b])
                    : CostsTheSame(family, r, op, local.place);
      break;
    }
    default:
      return true;
  }
  if (!holds) {
    r.blocked = Blocked::kFolding;
    unfold_wanted_ = true;
  }
  return holds;
}

template <class Step>
bool EngineImpl<Step>::CostsTheSame(Folding::Family& family,
                                    const CollectiveCall& call) {
  const auto at = std::lower_bound(family.calls.begin(), family.calls.end(), call);
  if (at != family.calls.end() && *at == call)
    return true;
  if (family.colours > 1 && !family.whole &&
      !CollectiveRendezvous<Step>::IsSymmetric(call.operation)) {
    for (const uint32_t instance : family.instances)
      communicators_[instance].apart = true;
    return false;
  }
  if (call.root >= communicators_[family.instances[0]].size())
    return true;
  std::vector<Cost> costs;
  for (const uint32_t instance : family.instances)
    costs.push_back(network_->Collective(call, communicators_[instance].members));
  if (!AreEqual(family, costs))
    return false;
  family.calls.insert(at, call);
  return true;
}

template <class Step>
bool EngineImpl<Step>::CostsTheSame(Folding::Family& family, RankState& r, const Op& op,
                                    uint32_t place) {
  if (!family.whole)
    return false;
  const uint32_t group = GroupOf(r, op);
  const std::pair key(uint64_t{r.program_index} << 32 | group, place);
  if (family.transfers.contains(key))
    return true;
  uint32_t shift = 0;
  if (!PeerShift(r.index, r, op.a, &shift))
    return false;
  const uint32_t size = communicators_[family.instances[0]].size();
  for (const Transfer& transfer : r.program->details().transfer_groups[group]) {
    const uint32_t peer = PeerIndex(transfer, shift, size);
    const uint32_t from = transfer.is_send != 0 ? place : peer;
    const uint32_t to = transfer.is_send != 0 ? peer : place;
    std::vector<Cost> costs, credits;
    for (const uint32_t instance : family.instances) {
      const std::vector<int32_t>& members = communicators_[instance].members;
      costs.push_back(network_->Transfer(transfer.bytes, members[from], members[to]));
      credits.push_back({Duration::Nanoseconds(static_cast<int64_t>(
          network_->TransferCreditBytes(members[from], members[to])))});
    }
    if (!AreEqual(family, costs) || !AreEqual(family, credits))
      return false;
  }
  family.transfers.insert(key);
  return true;
}

// Where they are not, the instances are no family in the next folding.
template <class Step>
bool EngineImpl<Step>::AreEqual(const Folding::Family& family,
                                const std::vector<Cost>& costs) {
  std::vector<std::string> texts(costs.size());
  for (size_t i = 0; i < costs.size(); ++i)
    AppendCost(&texts[i], costs[i]);
  if (std::count(texts.begin(), texts.end(), texts[0]) ==
      static_cast<std::ptrdiff_t>(texts.size()))
    return true;
  for (size_t i = 0; i < texts.size(); ++i)
    communicators_[family.instances[i]].prices_apart += texts[i];
  return false;
}

// All members of that place have released it; once all others have, too, it is gone.
template <class Step>
void EngineImpl<Step>::ReleaseFolded(const LocalCommunicator& local) {
  Folding::Family& family = folding_->FamilyOf(local.communicator);
  family.released.push_back(local.place);
  if (family.released.size() < family.colours)
    return;
  const Comm& played = communicators_[family.instances[0]];
  std::vector<UnmatchedSends> unmatched;
  FindUnmatched(played, &unmatched);
  // The first one last, since the others are made from it.
  for (size_t i = family.instances.size(); i-- > 0;) {
    Comm& c = communicators_[family.instances[i]];
    if (!unmatched.empty()) {
      c.TakeOver(played, folding_->seats[family.instances[i]],
                 [](uint32_t, uint32_t) { return kNone; });
      FindUnmatched(c, &unmatched_);
    }
    c = Comm();
    communicators_.Drop(family.instances[i]);
  }
  family.instances.clear();
}

template <class Step>
uint32_t EngineImpl<Step>::AbsenteesOf(uint32_t communicator) const {
  return folding_ == nullptr ? communicators_[communicator].absentees()
                             : folding_->FamilyOf(communicator).absentees;
}

// Communicators; with transfers, each of them has one member of each colour.
template <class Step>
uint32_t EngineImpl<Step>::StandingFor(uint32_t communicator) const {
  return folding_ == nullptr
             ? 1
             : static_cast<uint32_t>(folding_->FamilyOf(communicator).instances.size());
}

template <class Step>
template <class Tell>
void EngineImpl<Step>::ForEachPlayedBy(const RankState& r, Tell tell) const {
  if (folding_ == nullptr) {
    tell(r);
    return;
  }
  for (const uint32_t rank : folding_->stands_for[r.index])
    tell(ranks_[rank]);
}

template <class Step>
void EngineImpl<Step>::TellRange(const RankState& r, const Op& op) {
  ForEachPlayedBy(r, [&](const RankState& each) {
    observer_->OnRange(each.world_rank, op.a, op.kind == OpKind::kRangeBegin, r.host);
  });
}

template <class Step>
void EngineImpl<Step>::TellCollectiveEnd(const RankState& r, uint32_t number,
                                         uint32_t sequence, const CollectiveCall& call,
                                         const Stamp& arrival, const Stamp& end) {
  const auto tell = [&](const RankState& each) {
    const LocalCommunicator& local = each.communicators[number];
    observer_->OnCollectiveEnd(communicators_[local.communicator].identity, sequence,
                               local.index, each.world_rank, call, arrival, end);
  };
  if (tell_virtual_ends_)
    ForEachPlayedBy(r, tell);
  else if (r.options.real)
    tell(r);
}

template <class Step>
void EngineImpl<Step>::TellTransferEnd(const RankState& r, uint32_t number,
                                       uint32_t from, uint32_t to,
                                       const TransferEnded& ended) {
  const auto tell = [&](const RankState& each) {
    const LocalCommunicator& local = each.communicators[number];
    observer_->OnTransferEnd(communicators_[local.communicator].identity, from, to,
                             ended.sequence, ended.bytes, ended.is_send,
                             each.world_rank, ended.arrival, ended.end);
  };
  if (tell_virtual_ends_)
    ForEachPlayedBy(r, tell);
  else if (r.options.real)
    tell(r);
}

template <class Step>
size_t EngineImpl<Step>::played_ranks() const {
  return static_cast<size_t>(
      std::count_if(ranks_.all().begin(), ranks_.all().end(),
                    [](const auto& r) { return r->blocked != Blocked::kPlayed; }));
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_ENGINE_FOLDED_OPS_INL_H_
