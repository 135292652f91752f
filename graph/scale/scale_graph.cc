#include "graph/scale/scale_graph.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/class_cast.h"
#include "graph/build/trial.h"
#include "graph/scale/program_scaler.h"

namespace vrank::graph {
namespace {

// World ranks of a rank's communicators, by its own numbers.
std::map<uint32_t, std::vector<int32_t>> MembersOf(const ResolvedJob& job,
                                                   int32_t rank) {
  std::map<uint32_t, std::vector<int32_t>> members;
  for (const auto& [number, binding] : job.bindings[job.place_of.at(rank)])
    for (const uint32_t member : job.instances[binding.instance].members)
      members[number].push_back(job.job.ranks[member].world_rank);
  return members;
}

class GraphScaler {
 public:
  GraphScaler(const ExecutionGraph& graph, const Resizing& resizing)
      : graph_(graph), resizing_(resizing) {}

  absl::StatusOr<ExecutionGraph> Run(const ResolvedJob& job,
                                     const std::vector<GroupHint>& hints) {
    CopyFacts(hints);
    RETURN_IF_ERROR(ScalePrograms(job));
    CastRanks(to(), traced_, &scaled_);
    RETURN_IF_ERROR(FindCommunicators(hints));
    AddLosses();
    return std::move(scaled_);
  }

 private:
  const Layout& to() const { return resizing_.to(); }

  void CopyFacts(const std::vector<GroupHint>& hints) {
    scaled_.world_size = to().world_size();
    scaled_.layout = to().ToString();
    scaled_.layout_inferred = graph_.layout_inferred;
    for (const GroupHint& hint : hints)
      scaled_.group_hints.push_back(hint.ToString(to()));
    scaled_.gpu = graph_.gpu;
    scaled_.cluster = graph_.cluster;
    scaled_.virtual_gpu = graph_.virtual_gpu;
    scaled_.command = graph_.command;
    scaled_.program_fingerprint = graph_.program_fingerprint;
    scaled_.cost_options = graph_.cost_options;
    scaled_.launch_latency_ns = graph_.launch_latency_ns;
    scaled_.launch_queue_depth = graph_.launch_queue_depth;
    scaled_.losses = graph_.losses;
  }

  // Traced ranks stay traced; of two that come to one place, the lower one.
  absl::Status ScalePrograms(const ResolvedJob& job) {
    std::set<int32_t> taken;
    for (int32_t rank = 0; rank < graph_.world_size; ++rank) {
      const ExecutionGraph::Rank& part = graph_.ranks[static_cast<size_t>(rank)];
      const int32_t place = resizing_.RankAt(rank);
      if (part.leader != rank || !taken.insert(place).second)
        continue;
      ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                       ScaleProgram(resizing_, rank, *graph_.programs[part.program],
                                    MembersOf(job, rank), &counts_));
      traced_.push_back(
          {place, fmt::format("rank {} of the graph", rank), program.get()});
      scaled_.programs.push_back(std::move(program));
    }
    return absl::OkStatus();
  }

  // Creations alone are played: what else the programs do fits together as it did.
  absl::Status FindCommunicators(const std::vector<GroupHint>& hints) {
    std::vector<std::unique_ptr<Program>> programs;
    std::vector<TracedProgram> creators = traced_;
    for (TracedProgram& creator : creators) {
      programs.push_back(CreationsOf(*creator.program));
      creator.program = programs.back().get();
    }
    ASSIGN_OR_RETURN(TrialResult trial, PlayTrial(to(), hints, creators, {}));
    scaled_.communicators = std::move(trial.communicators);
    return absl::OkStatus();
  }

  void AddLosses() {
    const std::string subject =
        fmt::format("{} to {}", resizing_.from().ToString(), resizing_.to().ToString());
    scaled_.losses.push_back(
        {"scaled_replicas", subject,
         "work, host time, memory and micro-batches of a rank are those of the size "
         "that was traced, also of what is sharded over replicas",
         static_cast<uint64_t>(to().world_size())});
    if (counts_.sharded > 0)
      scaled_.losses.push_back(
          {"scaled_shares", subject,
           "operations of traced ranks whose share of a member was taken to change "
           "with the number of replicas",
           counts_.sharded});
    if (counts_.kept > 0)
      scaled_.losses.push_back({"scaled_kept_sizes", subject,
                                "operations of traced ranks over replicas that were "
                                "taken to keep their size",
                                counts_.kept});
  }

  const ExecutionGraph& graph_;
  const Resizing& resizing_;
  ExecutionGraph scaled_;
  std::vector<TracedProgram> traced_;
  ScaleCounts counts_;
};

}  // namespace

absl::StatusOr<ExecutionGraph> ScaleGraph(const ExecutionGraph& graph,
                                          const ResolvedJob& job,
                                          const std::vector<GroupHint>& hints,
                                          const Layout& to) {
  if (!graph.recorded_ranks.empty())
    return absl::InvalidArgumentError(
        "the graph was imported: its operations last as they were recorded, at any "
        "size; scale a graph of `vrank build`");
  ASSIGN_OR_RETURN(Layout from, Layout::Parse(graph.layout, graph.world_size));
  ASSIGN_OR_RETURN(const Resizing resizing, Resizing::Make(std::move(from), to));
  return GraphScaler(graph, resizing).Run(job, hints);
}

}  // namespace vrank::graph
