#include "tools/graph_cast.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "graph/build/slice_agreement.h"
#include "graph/fold/job.h"
#include "graph/membership/layout.h"
#include "graph/membership/leader.h"
#include "tools/graph_replay.h"
#include "tools/hint_collector.h"

namespace vrank::tools {
namespace {

// Every rank of the class was traced, and not all of them communicate alike. What else
// they do may differ: a rank that logs still does for its peers what they do.
bool IsOfItsOwnMind(const graph::ExecutionGraph& graph,
                    const graph::ExecutionGraph::Class& one) {
  const auto program = [&](int32_t rank) -> const graph::Program& {
    return *graph.programs[graph.ranks[static_cast<size_t>(rank)].program];
  };
  bool differ = false;
  for (const int32_t rank : one.ranks) {
    if (graph.ranks[static_cast<size_t>(rank)].leader != rank)
      return false;
    differ |=
        !graph::CommunicationDifference(program(one.ranks[0]), program(rank)).empty();
  }
  return differ;
}

}  // namespace

std::vector<emulator::VirtualRank> CastByGraph(const graph::ExecutionGraph& graph,
                                               std::span<const int32_t> real) {
  using Part = emulator::VirtualRank::Part;
  std::map<uint32_t, int32_t> leaders;  // real ones, by class
  for (const int32_t rank : real) {
    const auto [leader, added] =
        leaders.try_emplace(graph.ranks[static_cast<size_t>(rank)].rank_class, rank);
    graph::TakeLead(&leader->second, rank);
  }
  std::erase_if(leaders, [&](const auto& leader) {
    return IsOfItsOwnMind(graph, graph.classes[leader.first]);
  });
  std::vector<emulator::VirtualRank> cast;
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    if (std::find(real.begin(), real.end(), rank) != real.end())
      continue;
    const graph::ExecutionGraph::Rank& part = graph.ranks[static_cast<size_t>(rank)];
    const auto leader = leaders.find(part.rank_class);
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
