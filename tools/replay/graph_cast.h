// Which rank plays what where an execution graph is at hand.
//
// A rank follows a real rank of its class that does the same, so that a change in the
// code under test shows in all its peers. Every other rank plays what was recorded: a
// rank of a class without a real one, and a traced rank that differs from the real
// ranks of its class (rank 0, which reads and prints the loss; routed experts). What a
// rank does is what the graph has of it: its own trace, or that of its leader.
//
// Where the program that runs is not the one that the graph was recorded from, recorded
// ranks would play the old program against the new one. A class with a real rank then
// follows it as a whole, but for a class of which every rank was traced and not all
// communicate alike.
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_REPLAY_GRAPH_CAST_H_
#define VRANK_TOOLS_REPLAY_GRAPH_CAST_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "emulator/world/cast.h"
#include "emulator/world/world.h"
#include "graph/build/program_comparison.h"
#include "graph/fold/job.h"
#include "graph/membership/group_hint.h"
#include "graph/program/execution_graph.h"

namespace vrank::tools {

// The seats of a rank in the communicators of a run that kept them
// (RunOptions::keep_communicators).
graph::Seats SeatsIn(const emulator::World& world, int32_t rank);

class GraphCast {
 public:
  // Plays the creations of the graph's communicators. `graph` outlives the cast.
  static absl::StatusOr<GraphCast> Make(const graph::ExecutionGraph& graph);

  // All ranks that are not real, ascending. Programs stay the graph's.
  // `same_program`: the graph was recorded from the program that runs.
  std::vector<emulator::VirtualRank> Cast(std::span<const int32_t> real,
                                          bool same_program) const;

  // What the graph knows of the job's communicators, as hints: which dimensions each
  // init and each split groups. Followers of a real rank have no calls of their own,
  // and its calls alone need not tell; those of all slices together did.
  absl::StatusOr<std::vector<graph::GroupHint>> Hints() const;

  // The traced rank whose program the rank has in the graph.
  int32_t TracedFor(int32_t rank) const {
    return graph_->ranks[static_cast<size_t>(rank)].leader;
  }

  // How what a rank did in a run differs from what the graph has of it (its own trace,
  // or that of its leader): sums, and the first op. Empty: it does not. `seats`: the
  // rank's, in that run.
  std::string DifferenceOf(int32_t rank, const graph::Program& did,
                           const graph::Seats& seats) const;

  // A traced rank that follows a real one which does something else.
  struct Misfit {
    int32_t rank = 0, follows = 0;
    std::string difference;  // what the rank's own trace has more, and the first op
  };
  std::vector<Misfit> Misfits(std::span<const emulator::VirtualRank> cast) const;

 private:
  GraphCast(const graph::ExecutionGraph* graph, graph::ResolvedJob job)
      : graph_(graph), job_(std::move(job)) {}

  const graph::Program& ProgramOf(int32_t traced) const;
  graph::Seats SeatsOf(int32_t traced) const;
  // The first op in which two traced ranks of a class differ; empty: they do the same.
  const std::string& DifferenceBetween(int32_t a, int32_t b) const;
  graph::ProgramComparison Comparison(const graph::Seats& seats_of_a,
                                      std::string_view name_of_a,
                                      const graph::Seats& seats_of_b,
                                      std::string_view name_of_b) const;
  bool MayFollow(int32_t rank, int32_t real, bool same_program) const;
  bool EveryRankWasTraced(uint32_t rank_class) const;

  const graph::ExecutionGraph* graph_;
  graph::ResolvedJob job_;
  mutable std::map<std::pair<int32_t, int32_t>, std::string> differences_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_REPLAY_GRAPH_CAST_H_
