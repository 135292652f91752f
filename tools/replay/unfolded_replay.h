// A replay in which no two ranks are alike, because their work has jitter or because
// they share links: how long iterations take on the fastest and on the slowest rank,
// and what ranks do meanwhile. It can be had of any job, by any executor: all must say
// the same.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_REPLAY_UNFOLDED_REPLAY_H_
#define VRANK_TOOLS_REPLAY_UNFOLDED_REPLAY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <absl/status/statusor.h>

#include "graph/program/execution_graph.h"
#include "graph/program/program.h"
#include "graph/replay/stamp.h"
#include "graph/sweep/replay_every_rank.h"
#include "tools/machine/installation.h"
#include "tools/replay/graph_replay.h"
#include "tools/replay/shared_links.h"
#include "tools/replay/what_if_trials.h"

namespace vrank::tools {

struct UnfoldedOptions {
  graph::ReplayExecutor executor = graph::ReplayExecutor::kFastest;
  uint32_t threads = 0;  // SweepOptions
  std::optional<graph::VectorUnit> unit;
};

// Shortest, mean and longest of something over ranks, and which rank is slowest.
struct Spread {
  int64_t least = 0, most = 0;
  double sum = 0;
  uint64_t count = 0;
  int32_t slowest = 0;

  void Add(int64_t ns, int32_t rank) {
    if (count == 0 || ns < least)
      least = ns;
    if (count == 0 || ns > most) {
      most = ns;
      slowest = rank;
    }
    sum += static_cast<double>(ns);
    ++count;
  }
  int64_t Mean() const {
    return count == 0 ? 0 : static_cast<int64_t>(sum / static_cast<double>(count));
  }
};

// What the ranks of one class do, on average.
struct ClassActivity {
  std::vector<int32_t> ranks;
  Spread end, busy, communication, waited, host_waited;
  int64_t peak_bytes = 0;
};

struct UnfoldedSummary {
  std::vector<Spread> iterations;
  std::vector<ClassActivity> classes;
  graph::Stamp last_end;  // of the rank that ends last
  int32_t last_rank = 0;
  uint64_t nodes = 0;
};

// An every-rank replay.
struct UnfoldedReplay {
  PricedJob priced;
  std::unique_ptr<SharedLinks> links;  // with contention
  graph::EveryRank every;
  UnfoldedSummary summary;
  std::optional<WhatIfOutcome> what_if;
};

// Plays every rank of `graph`, with options.jitter and options.contention.
absl::StatusOr<UnfoldedReplay> ReplayUnfolded(const graph::ExecutionGraph& graph,
                                              const Installation& installation,
                                              const GraphReplayOptions& options,
                                              const UnfoldedOptions& unfolded);

// The lengths of a rank's iterations; of nested ranges the outermost counts.
std::vector<int64_t> IterationTimes(const graph::Program& program,
                                    const std::vector<graph::RangeMark>& marks);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_UNFOLDED_REPLAY_H_
