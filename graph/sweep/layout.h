// Ranks into blocks, communicators into assemblies and channels; see block.h.
//
// Thread rule: one thread.

#ifndef VRANK_GRAPH_SWEEP_LAYOUT_H_
#define VRANK_GRAPH_SWEEP_LAYOUT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <absl/status/status.h>

#include "graph/sweep/block.h"
#include "graph/sweep/sweep.h"

namespace vrank::graph {

// What a sweep plays.
struct SweepLayout {
  // Which block a rank is in, and at which lane; by place in the job.
  struct Seat {
    uint32_t block = 0, lane = 0;
  };
  LedgerSet ledgers;
  VectorUnit unit = VectorUnit::kScalar;
  std::deque<SweepCode> codes;
  std::vector<uint64_t> four_keys;  // of jitter, for the longest code
  std::vector<std::unique_ptr<SweepBlock>> blocks;
  std::deque<SweepAssembly> assemblies;
  std::deque<SweepChannel> channels;
  std::deque<StampLanes> costs;
  std::vector<Seat> seats;
  uint64_t bytes = 0;
};

absl::Status MakeSweepLayout(const ResolvedJob& job, const NetworkModel& network,
                             const SweepOptions& options, SweepLayout* layout);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_SWEEP_LAYOUT_H_
