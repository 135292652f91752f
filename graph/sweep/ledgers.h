// Which of a stamp's ledgers (stamp.h) a job needs: the state of a rank holds only
// those.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_SWEEP_LEDGERS_H_
#define VRANK_GRAPH_SWEEP_LEDGERS_H_

#include <array>
#include <cstdint>

#include "graph/fold/job.h"
#include "graph/replay/network_model.h"
#include "graph/replay/stamp.h"

namespace vrank::graph {

// The ledgers of Stamp that are in use, in Stamp's order.
struct LedgerSet {
  static constexpr std::array<int64_t Stamp::*, 4> kAll = {
      &Stamp::assumed, &Stamp::recorded, &Stamp::measured, &Stamp::assumed_host};
  std::array<bool, 4> used{};

  int count() const { return used[0] + used[1] + used[2] + used[3]; }
  // As SweepOp::ledger; 0 where modelled or not in use.
  uint8_t PlaceOf(int64_t Stamp::*ledger) const;
  static int64_t Stamp::*Of(Source source, bool host);  // nullptr: modelled
  uint8_t OnLane(Source source) const { return PlaceOf(Of(source, false)); }
  uint8_t OnHost(Source source) const { return PlaceOf(Of(source, true)); }
};

// Those that programs and network can put something into. One, or all of them: the
// vector code knows no other choice.
LedgerSet LedgersOf(const ResolvedJob& job, const NetworkModel& network);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_LEDGERS_H_
