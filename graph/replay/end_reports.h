// Reports to the observer what happens on ranks of every kind: ranges, and the ends of
// collectives and transfers.
//
// A rank that runs for others is reported once for each of them.
//
// Thread rule: one thread. Times: nanoseconds of the run. No errors.

#ifndef VRANK_GRAPH_REPLAY_END_REPORTS_H_
#define VRANK_GRAPH_REPLAY_END_REPORTS_H_

#include <cstdint>

#include "graph/replay/communicators.h"
#include "graph/replay/current_folding.h"
#include "graph/replay/engine.h"
#include "graph/replay/transfer_channel.h"

namespace vrank::graph {

template <class Step>
class EndReports {
 public:
  // `virtual_ends`: EngineOptions::tell_virtual_ends.
  EndReports(EngineObserver* observer, bool virtual_ends, const CurrentFolding& folding,
             const Communicators<Step>& communicators)
      : observer_(observer),
        virtual_ends_(virtual_ends),
        folding_(folding),
        communicators_(communicators) {}

  void Range(const RankState& r, const Op& op) const {
    folding_.ForEachPlayedBy(r, [&](const RankState& each) {
      observer_->OnRange(each.world_rank, op.a, op.kind == OpKind::kRangeBegin, r.host);
    });
  }

  // `number`: the rank's own of the communicator.
  void CollectiveEnd(const RankState& r, uint32_t number, uint32_t sequence,
                     const CollectiveCall& call, const Stamp& arrival,
                     const Stamp& end) const {
    ForEach(r, [&](const RankState& each) {
      const LocalCommunicator& local = each.communicators[number];
      observer_->OnCollectiveEnd(communicators_[local.communicator].identity, sequence,
                                 local.index, each.world_rank, call, arrival, end);
    });
  }

  void TransferEnd(const RankState& r, uint32_t number, uint32_t from, uint32_t to,
                   const TransferEnded& ended) const {
    ForEach(r, [&](const RankState& each) {
      const LocalCommunicator& local = each.communicators[number];
      observer_->OnTransferEnd(communicators_[local.communicator].identity, from, to,
                               ended.sequence, ended.bytes, ended.is_send,
                               each.world_rank, ended.arrival, ended.end);
    });
  }

 private:
  template <class Report>
  void ForEach(const RankState& r, Report report) const {
    if (virtual_ends_)
      folding_.ForEachPlayedBy(r, report);
    else if (r.options.real)
      report(r);
  }

  EngineObserver* observer_;
  bool virtual_ends_;
  const CurrentFolding& folding_;
  const Communicators<Step>& communicators_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_END_REPORTS_H_
