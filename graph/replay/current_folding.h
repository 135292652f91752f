// Which ranks are replayed for others at the moment, if any (folding.h).
//
// Most of the engine runs the same with and without it; what does not, asks here.
// When and how ranks are folded is LiveFolding's.
//
// Thread rule: one thread. Ranks and communicators are indices. No errors.

#ifndef VRANK_GRAPH_REPLAY_CURRENT_FOLDING_H_
#define VRANK_GRAPH_REPLAY_CURRENT_FOLDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "graph/replay/folding.h"
#include "graph/replay/rank_table.h"

namespace vrank::graph {

class CurrentFolding {
 public:
  explicit CurrentFolding(const RankTable& ranks) : ranks_(ranks) {}

  // Otherwise every rank runs for itself.
  bool on() const { return folding_ != nullptr; }
  // REQUIRES: on().
  Folding& operator*() { return *folding_; }
  Folding* operator->() { return folding_.get(); }
  const Folding* operator->() const { return folding_.get(); }

  Folding& Begin() {
    folding_ = std::make_unique<Folding>();
    return *folding_;
  }
  std::unique_ptr<Folding> End() {
    unfold_wanted_ = false;
    return std::move(folding_);
  }

  // An op cannot run for several ranks: its host waits until they are unfolded.
  void WantUnfolding(RankState& r) {
    r.blocked = Blocked::kFolding;
    unfold_wanted_ = true;
  }
  bool unfold_wanted() const { return unfold_wanted_; }

  // The rank that runs for this one: mostly itself.
  uint32_t PlayedBy(uint32_t rank) const {
    return on() ? folding_->played_by[rank] : rank;
  }
  // For how many ranks this one runs, itself included.
  size_t StandsFor(uint32_t rank) const {
    return on() ? folding_->stands_for[rank].size() : 1;
  }
  // Calls visit(rank) for each of them.
  template <class Visit>
  void ForEachPlayedBy(const RankState& r, Visit visit) const {
    if (!on()) {
      visit(r);
      return;
    }
    for (const uint32_t rank : folding_->stands_for[r.index])
      visit(ranks_[rank]);
  }
  // For how many communicators this one stands. With transfers, each of them has one
  // member of each colour.
  uint32_t InstancesOf(uint32_t communicator) const {
    return on() ? static_cast<uint32_t>(
                      folding_->FamilyOf(communicator).instances.size())
                : 1;
  }

 private:
  const RankTable& ranks_;
  std::unique_ptr<Folding> folding_;
  bool unfold_wanted_ = false;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_CURRENT_FOLDING_H_
