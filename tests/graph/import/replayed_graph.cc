#include "tests/graph/import/replayed_graph.h"

#include <memory>
#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "graph/analysis/replay_report.h"
#include "graph/analysis/timeline.h"
#include "graph/fold/replay.h"
#include "graph/membership/layout.h"
#include "graph/membership/membership_inference.h"
#include "graph/models/recorded_network.h"

namespace vrank::graph {
namespace {

bool HasEnd(OpKind kind) {
  return kind == OpKind::kWork || kind == OpKind::kCollective;
}

ReplayedRank Look(const Timeline& timeline, uint32_t place) {
  const PlayedRank& played = timeline.ranks()[place];
  ReplayedRank rank;
  for (uint64_t i = 0; i < played.program->size(); ++i) {
    const Op& op = played.program->op(i);
    if (!HasEnd(op.kind))
      continue;
    rank.ends_ns.push_back(played.times[i].end);
    rank.is_collective.push_back(op.kind == OpKind::kCollective);
    rank.names.push_back(
        op.kind == OpKind::kWork ? played.program->details().names[op.a] : "");
  }
  const auto matches = [](const std::string& name) {
    return name.rfind("ProfilerStep", 0) == 0;
  };
  for (const Iteration& iteration : FindIterations(played, matches).all) {
    rank.iterations_ns.push_back(iteration.length_ns());
    const Breakdown parts = BreakDown(timeline, place, iteration);
    rank.parts = {parts.compute_ns, parts.host_bound_ns, parts.unexplained_ns,
                  parts.exposed_ns, parts.overlapped_ns};
  }
  return rank;
}

}  // namespace

absl::StatusOr<std::map<int32_t, ReplayedRank>> ReplayImported(
    const ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::Parse(graph.layout, graph.world_size));
  std::vector<int32_t> all(static_cast<size_t>(graph.world_size));
  std::iota(all.begin(), all.end(), 0);
  MembershipInference membership(layout, all, {}, CallSource::kTraced);
  ASSIGN_OR_RETURN(const ResolvedJob job,
                   ResolveCommunicators(JobOf(graph), &membership));
  const RecordedNetwork network;
  Timeline timeline;
  ASSIGN_OR_RETURN(const std::unique_ptr<FoldedReplay> replay,
                   ReplayFolded(job, network, timeline.Observers()));
  timeline.Complete(job, *replay);
  std::map<int32_t, ReplayedRank> ranks;
  for (const RecordedRank& recorded : graph.recorded_ranks)
    for (uint32_t place = 0; place < timeline.ranks().size(); ++place)
      if (replay->quotient().ColourOf(timeline.ranks()[place].world_rank) ==
          replay->quotient().ColourOf(recorded.rank))
        ranks[recorded.rank] = Look(timeline, place);
  return ranks;
}

void Lengthen(int32_t rank, size_t nth, int64_t more_ns, ExecutionGraph* graph) {
  std::unique_ptr<Program>& program =
      graph->programs[graph->ranks[static_cast<size_t>(rank)].program];
  auto ops = std::make_shared<std::vector<Op>>();
  size_t place = 0;
  for (uint64_t i = 0; i < program->size(); ++i) {
    ops->push_back(program->op(i));
    if (HasEnd(ops->back().kind) && place++ == nth)
      ops->back().value += more_ns;
  }
  program =
      std::make_unique<Program>(std::span<const Op>(*ops), program->details(), ops);
}

}  // namespace vrank::graph
