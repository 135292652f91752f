// See gpt_job.h.

#include "bench/replay/gpt_job.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/file/graph_file.h"
#include "graph/membership/layout.h"
#include "graph/membership/membership_inference.h"
#include "graph/models/cluster.h"
#include "graph/scale/scale_graph.h"

namespace vrank::graph {
namespace {

absl::StatusOr<std::vector<GroupHint>> HintsOf(const ExecutionGraph& graph,
                                               const Layout& layout) {
  std::vector<GroupHint> hints;
  for (const std::string& text : graph.group_hints) {
    ASSIGN_OR_RETURN(GroupHint hint, ParseGroupHint(text, layout));
    hints.push_back(std::move(hint));
  }
  return hints;
}

absl::StatusOr<ResolvedJob> Resolve(const ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::Parse(graph.layout, graph.world_size));
  ASSIGN_OR_RETURN(std::vector<GroupHint> hints, HintsOf(graph, layout));
  std::vector<int32_t> traced;
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank)
    if (graph.ranks[rank].leader == static_cast<int32_t>(rank))
      traced.push_back(static_cast<int32_t>(rank));
  MembershipInference membership(layout, traced, std::move(hints), CallSource::kTraced);
  return ResolveCommunicators(JobOf(graph), &membership);
}

// The same layout with a larger dp.
Layout Grown(const Layout& layout, int32_t times) {
  std::string text, order;
  for (const Dimension& dimension : layout.dimensions()) {
    text += fmt::format("{}={},", dimension.name,
                        dimension.size * (dimension.name == "dp" ? times : 1));
    order += fmt::format("{}{}", order.empty() ? "" : "-", dimension.name);
  }
  return *Layout::ParseWorld(fmt::format("{}order={}", text, order));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GptJob>> GptJob::Open(const std::string& path,
                                                     const std::string& data_dir) {
  std::unique_ptr<GptJob> self(new GptJob());
  ASSIGN_OR_RETURN(self->graph_, OpenGraph(path));
  ASSIGN_OR_RETURN(const ClusterDescription cluster,
                   LoadCluster(self->graph_.cluster, data_dir));
  self->network_ = std::make_unique<AlphaBetaNetwork>(cluster);
  ASSIGN_OR_RETURN(self->resolved_, Resolve(self->graph_));
  return self;
}

absl::StatusOr<GptJob::Size> GptJob::MakeSize(int32_t ranks) const {
  ASSIGN_OR_RETURN(const Layout layout,
                   Layout::Parse(graph_.layout, graph_.world_size));
  ASSIGN_OR_RETURN(const std::vector<GroupHint> hints, HintsOf(graph_, layout));
  Size size;
  ASSIGN_OR_RETURN(size.graph,
                   ScaleGraph(graph_, resolved_, hints, network_->communicator_memory(),
                              Grown(layout, ranks / graph_.world_size)));
  ASSIGN_OR_RETURN(size.job, Resolve(size.graph));
  return size;
}

ResolvedJob GptJob::Scaled(int32_t ranks, const Jitter& jitter) {
  if (ranks != graph_.world_size && !sizes_.contains(ranks)) {
    absl::StatusOr<Size> made = MakeSize(ranks);
    if (!made.ok()) {
      std::fprintf(stderr, "replay_bench: %d ranks: %s\n", ranks,
                   std::string(made.status().message()).c_str());
      std::exit(1);
    }
    sizes_.emplace(ranks, *std::move(made));
  }
  ResolvedJob job = ranks == graph_.world_size ? resolved_ : sizes_.at(ranks).job;
  for (ReplayJob::Rank& rank : job.job.ranks)
    rank.options.jitter = jitter;
  return job;
}

ResolvedJob GptJob::Separate(const ResolvedJob& job, Differ differ,
                             std::vector<std::unique_ptr<Program>>* programs) {
  ResolvedJob separate = job;
  for (ReplayJob::Rank& rank : separate.job.ranks) {
    const Program& program = *rank.program;
    auto ops = std::make_shared<std::vector<Op>>();
    for (uint64_t i = 0; i < program.size(); ++i) {
      Op op = program.op(i);
      if (op.kind == OpKind::kWork && differ == Differ::kInCosts)
        op.value += (static_cast<int64_t>(i) * 7 + rank.world_rank) % 64;
      ops->push_back(op);
      if (op.kind == OpKind::kWork && differ == Differ::kInWorks &&
          (i * 7 + static_cast<uint64_t>(rank.world_rank)) % 1000 == 0)
        ops->push_back(op);
    }
    programs->push_back(std::make_unique<Program>(*ops, program.details(), ops));
    separate.uses[programs->back().get()] = job.uses.at(rank.program);
    rank.program = programs->back().get();
  }
  return separate;
}

}  // namespace vrank::graph
