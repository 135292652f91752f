// An execution graph, played with the models of a cluster: nothing is real.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_REPLAY_GRAPH_REPLAY_H_
#define VRANK_TOOLS_REPLAY_GRAPH_REPLAY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "base/pattern.h"
#include "emulator/world/result_collector.h"
#include "emulator/world/world.h"
#include "graph/analysis/replay_report.h"
#include "graph/analysis/timeline.h"
#include "graph/fold/replay.h"
#include "graph/membership/membership_inference.h"
#include "graph/models/alpha_beta_network.h"
#include "graph/program/execution_graph.h"
#include "graph/what_if/edited_job.h"
#include "tools/machine/installation.h"

namespace vrank::tools {

struct GraphReplayOptions {
  // Empty: the graph's own; of an imported graph, what was recorded.
  std::string cluster;
  std::map<int32_t, emulator::WorkFactor> work_factors;  // by world rank
  graph::Jitter jitter;                                  // of the work of every rank
  bool contention = false;  // operations that share links slow each other down
  Pattern iteration_pattern;
  bool every_rank = false;              // none is played for others
  bool collectives = false;             // a row per collective
  bool member_ends = false;             // every end of every member
  std::vector<graph::WhatIf> what_ifs;  // edits of the graph, ahead of the above
};

// The job of a graph, and what its operations cost.
struct PricedJob {
  std::string cluster;
  bool is_as_recorded = false;
  std::unique_ptr<graph::NetworkModel> network;
  graph::ResolvedJob job;
  std::vector<graph::EditedNodes> edited;  // by what-if
  // What the job refers to where there are what-ifs.
  std::vector<std::unique_ptr<graph::Program>> edited_programs;
  std::vector<std::unique_ptr<graph::NetworkModel>> inner_networks;
};
absl::StatusOr<PricedJob> PriceJob(const graph::ExecutionGraph& graph,
                                   const Installation& installation,
                                   const GraphReplayOptions& options);

class GraphReplay {
 public:
  // Plays it. `graph` outlives the replay.
  static absl::StatusOr<std::unique_ptr<GraphReplay>> Play(
      const graph::ExecutionGraph& graph, const Installation& installation,
      const GraphReplayOptions& options);

  const graph::ExecutionGraph& graph() const { return *graph_; }
  const std::string& cluster() const { return priced_.cluster; }
  // Communication of an imported graph lasts as recorded.
  bool is_as_recorded() const { return priced_.is_as_recorded; }
  const graph::Timeline& timeline() const { return timeline_; }
  const graph::ResolvedJob& job() const { return priced_.job; }
  const std::vector<graph::EditedNodes>& edited() const { return priced_.edited; }
  const graph::Quotient& quotient() const { return replay_->quotient(); }
  // Of all ranks.
  const emulator::ResultCollector& results() const { return *results_; }
  graph::RankResult result(int32_t rank) const { return replay_->result(rank); }
  uint64_t nodes() const { return replay_->ops(); }
  uint64_t nodes_played() const { return replay_->played_ops(); }
  // Of the ranks that are not absent; without `iteration`, about the last one.
  graph::ReplayReport Report(const Pattern& iteration_pattern,
                             std::optional<size_t> iteration = std::nullopt) const;
  // The ranks that share the timeline of `rank`, ascending.
  std::vector<int32_t> RanksLike(int32_t rank) const;

 private:
  GraphReplay() = default;

  const graph::ExecutionGraph* graph_ = nullptr;
  PricedJob priced_;
  std::unique_ptr<emulator::ResultCollector> results_;
  graph::Timeline timeline_;
  std::unique_ptr<graph::FoldedReplay> replay_;
};

// What --iteration-range asks for, nullopt: not given, the usual names. An error where
// it is given and no NVTX range of the graph matches: it lists those that there are.
absl::StatusOr<Pattern> IterationPattern(const graph::ExecutionGraph& graph,
                                         const std::optional<std::string>& flag);
// The ranks of a graph that were traced, ascending: those with calls of their own.
std::vector<int32_t> TracedRanks(const graph::ExecutionGraph& graph);
// By rank, whether it was left out of the recordings that were imported: its program
// does nothing. Empty where no rank is absent.
std::vector<bool> AbsentRanks(const graph::ExecutionGraph& graph);
// Operations of an imported graph's recorded ranks, by what --cluster does to them.
struct NetworkUse {
  uint64_t priced = 0;       // take the cluster's time
  uint64_t as_recorded = 0;  // members, peer or size are not known
};
NetworkUse CountNetworkUse(const graph::ExecutionGraph& graph);

// A replayed peak of device memory; nullopt: unknown, since the graph was imported of
// recordings without memory.
std::optional<int64_t> KnownPeak(const graph::ExecutionGraph& graph, int64_t bytes);
// Who belongs to the communicators of a graph; used up by one replay.
absl::StatusOr<std::unique_ptr<graph::MembershipInference>> MembershipOf(
    const graph::ExecutionGraph& graph);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_GRAPH_REPLAY_H_
