#include "tools/graph_cast.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "graph/replay/fold_job.h"
#include "tools/graph_replay.h"

namespace vrank::tools {
namespace {

// Collects, over the traced ranks, what each creation groups.
class HintCollector {
 public:
  HintCollector(const graph::Layout& layout, const graph::ResolvedJob& job)
      : layout_(layout), job_(job) {}

  void AddRank(int32_t rank, const graph::Program& program) {
    const uint32_t place = job_.place_of.at(rank);
    uint32_t inits = 0;
    std::map<uint32_t, uint32_t> splits;  // by the rank's number of the parent
    for (uint64_t i = 0; i < program.size(); ++i) {
      const graph::Op& op = program.op(i);
      if (op.kind != graph::OpKind::kCreateCommunicator)
        continue;
      const graph::Creation& call = program.details().creations[op.b];
      const bool is_init = call.parent == 0;
      const graph::DimensionSet parent =
          is_init ? 0 : layout_.Varying(Members(place, call.parent));
      const uint32_t number = is_init ? inits++ : splits[call.parent]++;
      Found& found = found_[{is_init, parent, number}];
      const std::vector<int32_t> members = Members(place, op.a);
      if (members.empty()) {
        found.partial = true;
        continue;
      }
      const graph::DimensionSet dimensions = layout_.Varying(members);
      std::vector<int32_t> sorted = members;
      std::sort(sorted.begin(), sorted.end());
      found.regular = found.regular && sorted == layout_.Group(rank, dimensions);
      found.dimensions.insert(dimensions);
      found.classes.insert(layout_.ClassOf(rank));
    }
  }

  // Creations that mean one set of dimensions wherever they were seen.
  std::vector<graph::GroupHint> Hints() const {
    std::vector<graph::GroupHint> hints;
    for (const auto& [key, found] : found_) {
      if (!found.regular || found.dimensions.size() != 1)
        continue;
      graph::GroupHint hint;
      std::tie(hint.is_init, hint.parent, hint.number) = key;
      hint.dimensions = *found.dimensions.begin();
      if (found.partial)
        hint.classes.assign(found.classes.begin(), found.classes.end());
      hints.push_back(std::move(hint));
    }
    return hints;
  }

 private:
  struct Found {
    std::set<graph::DimensionSet> dimensions;
    std::set<int32_t> classes;
    bool regular = true;   // groups of the layout
    bool partial = false;  // some class takes no part
  };

  // World ranks; empty where the rank is no member.
  std::vector<int32_t> Members(uint32_t place, uint32_t number) const {
    std::vector<int32_t> ranks;
    const auto binding = job_.bindings[place].find(number);
    if (binding == job_.bindings[place].end())
      return ranks;
    for (const uint32_t member : job_.instances[binding->second.instance].members)
      ranks.push_back(job_.job.ranks[member].world_rank);
    return ranks;
  }

  const graph::Layout& layout_;
  const graph::ResolvedJob& job_;
  std::map<std::tuple<bool, graph::DimensionSet, uint32_t>, Found> found_;
};

}  // namespace

std::vector<emulator::VirtualRank> CastByGraph(const graph::ExecutionGraph& graph,
                                               std::span<const int32_t> real) {
  using Part = emulator::VirtualRank::Part;
  std::map<uint32_t, int32_t> leaders;  // real ones, by class
  for (const int32_t rank : real) {
    const auto [leader, added] =
        leaders.try_emplace(graph.ranks[static_cast<size_t>(rank)].rank_class, rank);
    leader->second = std::min(leader->second, rank);
  }
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
  HintCollector collector(layout, job);
  for (const int32_t rank : TracedRanks(graph))
    collector.AddRank(rank,
                      *graph.programs[graph.ranks[static_cast<size_t>(rank)].program]);
  return collector.Hints();
}

}  // namespace vrank::tools
