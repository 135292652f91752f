#include "graph/build/class_cast.h"

#include <map>

#include "graph/build/rank_plan.h"

namespace vrank::graph {

void CastRanks(const Layout& layout, const std::vector<TracedProgram>& traced,
               ExecutionGraph* graph) {
  const std::map<int32_t, int32_t> leaders = LeadersByClass(layout, traced);
  std::map<int32_t, uint32_t> program_of;
  for (uint32_t i = 0; i < traced.size(); ++i)
    program_of[traced[i].rank] = i;
  for (int32_t one = 0; one < layout.classes(); ++one)
    graph->classes.push_back({ClassName(layout, one), RanksOfClass(layout, one)});
  for (int32_t rank = 0; rank < layout.world_size(); ++rank) {
    const int32_t rank_class = layout.ClassOf(rank);
    ExecutionGraph::Rank part;
    part.rank_class = static_cast<uint32_t>(rank_class);
    part.leader = program_of.contains(rank) ? rank : leaders.at(rank_class);
    part.program = program_of.at(part.leader);
    graph->ranks.push_back(part);
  }
}

}  // namespace vrank::graph
