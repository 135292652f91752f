#include "tools/graph_cast.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "graph/membership/layout.h"
#include "graph/membership/leader.h"
#include "graph/replay/fold_job.h"
#include "graph/replay/program_content.h"
#include "tools/graph_replay.h"
#include "tools/hint_collector.h"

namespace vrank::tools {
std::vector<emulator::VirtualRank> CastByGraph(const graph::ExecutionGraph& graph,
                                               std::span<const int32_t> real) {
  using Part = emulator::VirtualRank::Part;
  std::set<uint32_t> real_classes;
  for (const int32_t rank : real)
    real_classes.insert(graph.ranks[static_cast<size_t>(rank)].rank_class);
  graph::ProgramNumbering number;
  const auto does = [&](const graph::ExecutionGraph::Rank& part) {
    return std::pair(part.rank_class, number(graph.programs[part.program].get()));
  };
  // Real ones, by class and what the graph saw them do.
  std::map<std::pair<uint32_t, uint32_t>, int32_t> leaders;
  for (const int32_t rank : real) {
    const auto [leader, added] =
        leaders.try_emplace(does(graph.ranks[static_cast<size_t>(rank)]), rank);
    graph::TakeLead(&leader->second, rank);
  }
  std::vector<emulator::VirtualRank> cast;
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    if (std::find(real.begin(), real.end(), rank) != real.end())
      continue;
    const graph::ExecutionGraph::Rank& part = graph.ranks[static_cast<size_t>(rank)];
    const auto leader = real_classes.contains(part.rank_class)
                            ? leaders.find(does(part))
                            : leaders.end();
    if (leader != leaders.end())
      cast.push_back({rank, Part::kFollower, leader->second, nullptr});
    else
      cast.push_back({rank, Part::kRecorded, part.leader == rank ? -1 : part.leader,
                      graph.programs[part.program].get()});
  }
  return cast;
}

absl::StatusOr<std::vector<graph::GroupHint>> HintsOf(
    const graph::ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const graph::Layout layout,
                   graph::Layout::Parse(graph.layout, graph.world_size));
  ASSIGN_OR_RETURN(graph::MembershipInference membership, MembershipOf(graph));
  ASSIGN_OR_RETURN(const graph::ResolvedJob job,
                   graph::ResolveCommunicators(graph::JobOf(graph), &membership));
  HintCollector collector(layout);
  for (const int32_t rank : TracedRanks(graph)) {
    graph::SeenRank seen;
    seen.program = graph.programs[graph.ranks[static_cast<size_t>(rank)].program].get();
    seen.end = seen.program->size();
    for (const auto& [number, binding] : job.bindings[job.place_of.at(rank)])
      for (const uint32_t member : job.instances[binding.instance].members)
        seen.communicators[number].members.push_back(job.job.ranks[member].world_rank);
    collector.AddRank(rank, seen);
  }
  return collector.Hints();
}

}  // namespace vrank::tools
