// Which ops may run once for several ranks, while some run for others (folding.h).
//
// Costs may differ between communicators whose members are alike (a pair within a node
// and one across), so each is compared when it is first needed.
//
// Thread rule: one thread. Errors: numbers out of range (FirstError).

#ifndef VRANK_GRAPH_REPLAY_FOLDED_OPS_H_
#define VRANK_GRAPH_REPLAY_FOLDED_OPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/replay/collective_rendezvous.h"
#include "graph/replay/communicators.h"
#include "graph/replay/condition.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/first_error.h"
#include "graph/replay/network_model.h"
#include "graph/replay/numbered.h"
#include "graph/replay/peer_places.h"

namespace vrank::graph {

template <class Step>
class FoldedOps {
 public:
  FoldedOps(const NetworkModel* network, CurrentFolding& folding,
            Communicators<Step>& communicators, const PeerPlaces<Step>& peers,
            FirstError& error)
      : network_(network),
        folding_(folding),
        communicators_(communicators),
        peers_(peers),
        error_(error) {}

  bool on() const { return folding_.on(); }

  // The op may run for all ranks for which `r` does. False: the host is blocked.
  bool Allow(RankState& r, const Op& op) {
    return !folding_.on() || AllowFolded(r, op);
  }
  // All members of that place have released it; once those of every other place have,
  // too, it is gone. REQUIRES: on().
  void Release(const LocalCommunicator& local);

 private:
  using Family = Folding::Family;

  bool AllowFolded(RankState& r, const Op& op);
  bool AllowCommunication(RankState& r, const Op& op, const LocalCommunicator& local);
  bool CostsTheSame(Family& family, const CollectiveCall& call);
  bool CostsTheSame(Family& family, RankState& r, const Op& op, uint32_t place);
  bool CostsTheSame(const Family& family, const Transfer& transfer, uint32_t from,
                    uint32_t to);
  bool AreEqual(const Family& family, const std::vector<Cost>& costs);

  const NetworkModel* const network_;
  CurrentFolding& folding_;
  Communicators<Step>& communicators_;
  const PeerPlaces<Step>& peers_;
  FirstError& error_;
};

template <class Step>
bool FoldedOps<Step>::AllowFolded(RankState& r, const Op& op) {
  bool holds = false;
  switch (op.kind) {
    case OpKind::kCreateCommunicator:
      break;
    case OpKind::kReleaseCommunicator:
    case OpKind::kCollective:
    case OpKind::kTransfers: {
      const LocalCommunicator& local = CommunicatorAt(r, op.a, error_);
      if (local.state != LocalCommunicator::State::kBound)
        return true;  // an error, and reported as such
      holds = AllowCommunication(r, op, local);
      break;
    }
    default:
      return true;
  }
  if (!holds)
    folding_.WantUnfolding(r);
  return holds;
}

template <class Step>
bool FoldedOps<Step>::AllowCommunication(RankState& r, const Op& op,
                                         const LocalCommunicator& local) {
  if (op.kind == OpKind::kReleaseCommunicator) {
    return op.from_helper == 0 &&
           static_cast<ReleaseKind>(op.b) < ReleaseKind::kAbort &&
           op.a < CommunicatorTable::kFirstNumbers;
  }
  Family& family = folding_->FamilyOf(local.communicator);
  return op.kind == OpKind::kCollective
             ? CostsTheSame(family, r.program->details().collectives[op.b])
             : CostsTheSame(family, r, op, local.place);
}

template <class Step>
bool FoldedOps<Step>::CostsTheSame(Family& family, const CollectiveCall& call) {
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
bool FoldedOps<Step>::CostsTheSame(Family& family, RankState& r, const Op& op,
                                   uint32_t place) {
  if (!family.whole)
    return false;
  const uint32_t group = GroupOf(r, op);
  const std::pair key(uint64_t{r.program_index} << 32 | group, place);
  if (family.transfers.contains(key))
    return true;
  uint32_t shift = 0;
  if (!peers_.Shift(r, op.a, &shift))
    return false;
  const uint32_t size = communicators_[family.instances[0]].size();
  for (const Transfer& transfer : r.program->details().transfer_groups[group]) {
    const uint32_t peer = PeerIndex(transfer, shift, size);
    const uint32_t from = transfer.is_send != 0 ? place : peer;
    const uint32_t to = transfer.is_send != 0 ? peer : place;
    if (!CostsTheSame(family, transfer, from, to))
      return false;
  }
  family.transfers.insert(key);
  return true;
}

template <class Step>
bool FoldedOps<Step>::CostsTheSame(const Family& family, const Transfer& transfer,
                                   uint32_t from, uint32_t to) {
  std::vector<Cost> costs, credits;
  for (const uint32_t instance : family.instances) {
    const std::vector<int32_t>& members = communicators_[instance].members;
    costs.push_back(network_->Transfer(transfer.bytes, members[from], members[to]));
    credits.push_back({Duration::Nanoseconds(static_cast<int64_t>(
        network_->TransferCreditBytes(members[from], members[to])))});
  }
  return AreEqual(family, costs) && AreEqual(family, credits);
}

// Where they are not, the instances are no family in the next folding.
template <class Step>
bool FoldedOps<Step>::AreEqual(const Family& family, const std::vector<Cost>& costs) {
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

template <class Step>
void FoldedOps<Step>::Release(const LocalCommunicator& local) {
  Family& family = folding_->FamilyOf(local.communicator);
  family.released.push_back(local.place);
  if (family.released.size() < family.colours)
    return;
  const Communicator<Step>& played = communicators_[family.instances[0]];
  std::vector<UnmatchedSends> unmatched;
  FindUnmatched(played, &unmatched);
  // The first one last, since the others are made from it.
  for (size_t i = family.instances.size(); i-- > 0;) {
    Communicator<Step>& c = communicators_[family.instances[i]];
    if (!unmatched.empty()) {
      c.TakeOver(played, folding_->seats[family.instances[i]],
                 [](uint32_t, uint32_t) { return kNone; });
      communicators_.KeepUnmatched(c);
    }
    communicators_.Drop(family.instances[i]);
  }
  family.instances.clear();
}

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_FOLDED_OPS_H_
