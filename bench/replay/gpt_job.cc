// See gpt_job.h.

#include "bench/replay/gpt_job.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/file/graph_file.h"
#include "graph/membership/layout.h"
#include "graph/membership/membership_inference.h"
#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

absl::StatusOr<MembershipInference> MembershipOf(const ExecutionGraph& graph) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::Parse(graph.layout, graph.world_size));
  std::vector<int32_t> traced;
  for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (graph.ranks[rank].leader == static_cast<int32_t>(rank))
      traced.push_back(static_cast<int32_t>(rank));
  }
  return MembershipInference(layout, traced, {}, CallSource::kTraced);
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

const Dimension& Dp(const Layout& layout) {
  return *std::find_if(layout.dimensions().begin(), layout.dimensions().end(),
                       [](const Dimension& one) { return one.name == "dp"; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<GptJob>> GptJob::Open(const std::string& path,
                                                     const std::string& data_dir) {
  std::unique_ptr<GptJob> self(new GptJob());
  ASSIGN_OR_RETURN(self->graph_, OpenGraph(path));
  ASSIGN_OR_RETURN(const ClusterDescription cluster,
                   LoadCluster(self->graph_.cluster, data_dir));
  self->network_ = std::make_unique<AlphaBetaNetwork>(cluster);
  ASSIGN_OR_RETURN(MembershipInference membership, MembershipOf(self->graph_));
  ASSIGN_OR_RETURN(self->resolved_,
                   ResolveCommunicators(JobOf(self->graph_), &membership));
  return self;
}

ResolvedJob GptJob::Scaled(int32_t ranks, const Jitter& jitter) const {
  const Layout small = *Layout::Parse(graph_.layout, graph_.world_size);
  const Layout large = Grown(small, ranks / graph_.world_size);
  const auto coordinates = [](const Layout& of, int32_t rank, const Layout& in) {
    int32_t there = 0;
    for (size_t d = 0; d < of.dimensions().size(); ++d)
      there +=
          of.Coordinate(rank, d) % in.dimensions()[d].size * in.dimensions()[d].stride;
    return there;
  };
  ResolvedJob job;
  job.job.options = resolved_.job.options;
  job.uses = resolved_.uses;
  job.sequences = resolved_.sequences;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    ReplayJob::Rank played =
        resolved_.job.ranks[static_cast<size_t>(coordinates(large, rank, small))];
    const int32_t leader =
        played.options.follower ? played.options.leader : played.world_rank;
    played.world_rank = rank;
    played.options.leader = coordinates(small, leader, large);
    played.options.follower = played.options.leader != rank;
    if (!played.options.follower)
      played.options.leader = -1;
    played.options.jitter = jitter;
    job.job.ranks.push_back(played);
    job.place_of[rank] = static_cast<uint32_t>(rank);
  }
  job.bindings.resize(static_cast<size_t>(ranks));
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto like = static_cast<size_t>(coordinates(large, rank, small));
    for (const auto& [number, binding] : resolved_.bindings[like]) {
      if (job.bindings[static_cast<size_t>(rank)].count(number) != 0)
        continue;
      const CommunicatorInstance& model = resolved_.instances[binding.instance];
      // Its members with this rank's place in dp, or with all of theirs.
      const auto replica = [&](const Layout& of, int32_t one) {
        return one / Dp(of).stride % Dp(of).size;
      };
      const int32_t own_replica = replica(large, rank);
      const int32_t small_size = Dp(small).size, large_size = Dp(large).size;
      bool spans = false;
      for (const uint32_t member : model.members)
        spans |= replica(small, static_cast<int32_t>(member)) !=
                 replica(small, static_cast<int32_t>(like));
      std::vector<std::pair<int32_t, uint32_t>> members;  // and their numbers
      for (size_t i = 0; i < model.members.size(); ++i) {
        const auto member = static_cast<int32_t>(model.members[i]);
        const int32_t at_zero = coordinates(small, member, large) -
                                replica(small, member) * Dp(large).stride;
        for (int32_t r = spans ? replica(small, member) : own_replica; r < large_size;
             r += spans ? small_size : large_size)
          members.emplace_back(at_zero + r * Dp(large).stride, model.numbers[i]);
      }
      std::sort(members.begin(), members.end());
      CommunicatorInstance instance;
      instance.identity = fmt::format("{}.{}", number, rank);
      instance.sequence = model.sequence;
      const auto place = static_cast<uint32_t>(job.instances.size());
      for (const auto& [member, own] : members) {
        job.bindings[static_cast<size_t>(member)][own] = {
            place, static_cast<uint32_t>(instance.members.size())};
        instance.members.push_back(static_cast<uint32_t>(member));
        instance.numbers.push_back(own);
      }
      job.instances.push_back(std::move(instance));
    }
  }
  return job;
}

ResolvedJob GptJob::Separate(const ResolvedJob& job,
                             std::vector<std::unique_ptr<Program>>* programs,
                             bool alike) {
  ResolvedJob separate = job;
  for (ReplayJob::Rank& rank : separate.job.ranks) {
    const Program& program = *rank.program;
    auto ops = std::make_shared<std::vector<Op>>();
    for (uint64_t i = 0; i < program.size(); ++i)
      ops->push_back(program.op(i));
    // Each op of each rank costs a little else.
    for (size_t i = 0; !alike && i < ops->size(); ++i)
      if (Op& op = (*ops)[i]; op.kind == OpKind::kWork)
        op.value += (static_cast<int64_t>(i) * 7 + rank.world_rank) % 64;
    programs->push_back(std::make_unique<Program>(*ops, program.details(), ops));
    separate.uses[programs->back().get()] = job.uses.at(rank.program);
    rank.program = programs->back().get();
  }
  return separate;
}

}  // namespace vrank::graph
