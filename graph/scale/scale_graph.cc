#include "graph/scale/scale_graph.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/build/class_cast.h"
#include "graph/build/trial.h"
#include "graph/fold/replay.h"
#include "graph/membership/membership_inference.h"
#include "graph/replay/free_network.h"
#include "graph/scale/pipeline_scaler.h"
#include "graph/scale/program_scaler.h"

namespace vrank::graph {
namespace {

MembersByNumber MembersOf(const ResolvedJob& job, int32_t rank) {
  MembersByNumber members;
  for (const auto& [number, binding] : job.bindings[job.place_of.at(rank)])
    for (const uint32_t member : job.instances[binding.instance].members)
      members[number].push_back(job.job.ranks[member].world_rank);
  return members;
}

std::vector<TracedProgram> TracedOf(const ExecutionGraph& graph) {
  std::vector<TracedProgram> traced;
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    const ExecutionGraph::Rank& part = graph.ranks[static_cast<size_t>(rank)];
    if (part.leader == rank)
      traced.push_back({rank, "", graph.programs[part.program].get()});
  }
  return traced;
}

class GraphScaler {
 public:
  GraphScaler(const ExecutionGraph& graph, const Resizing& resizing,
              const CommunicatorMemory& memory)
      : graph_(graph), resizing_(resizing), memory_(memory) {}

  absl::StatusOr<ExecutionGraph> Run(const ResolvedJob& job,
                                     const std::vector<GroupHint>& hints) {
    ASSIGN_OR_RETURN(const std::vector<GroupHint> scaled_hints, ScaleHints(hints));
    CopyFacts(scaled_hints);
    RETURN_IF_ERROR(ScalePrograms(job));
    CastRanks(to(), traced_, &scaled_);
    RETURN_IF_ERROR(FindCommunicators(scaled_hints));
    RETURN_IF_ERROR(CheckSchedule(scaled_hints));
    AddLosses();
    return std::move(scaled_);
  }

 private:
  const Layout& to() const { return resizing_.to(); }

  absl::StatusOr<std::vector<GroupHint>> ScaleHints(std::vector<GroupHint> hints) {
    for (GroupHint& hint : hints) {
      if (!resizing_.stages() || hint.classes.empty())
        continue;
      ASSIGN_OR_RETURN(hint.classes, resizing_.Stages(hint.classes));
    }
    return hints;
  }

  void CopyFacts(const std::vector<GroupHint>& hints) {
    static_cast<JobDescription&>(scaled_) = graph_;
    scaled_.world_size = to().world_size();
    scaled_.layout = to().ToString();
    scaled_.group_hints.clear();
    for (const GroupHint& hint : hints)
      scaled_.group_hints.push_back(hint.ToString(to()));
    scaled_.losses = graph_.losses;
  }

  absl::Status ScalePrograms(const ResolvedJob& job) {
    return resizing_.stages() ? ScaleStages(job) : ScaleReplicas(job);
  }

  // Traced ranks stay traced; of two that come to one place, the lower one.
  absl::Status ScaleReplicas(const ResolvedJob& job) {
    std::set<int32_t> taken;
    for (const TracedProgram& traced : TracedOf(graph_)) {
      const int32_t becomes = resizing_.RankAt(
          traced.rank, resizing_.OldPlace(traced.rank) % resizing_.new_size());
      if (!taken.insert(becomes).second)
        continue;
      RETURN_IF_ERROR(AddRank(job, traced.rank, becomes, *traced.program));
    }
    return absl::OkStatus();
  }

  absl::Status ScaleStages(const ResolvedJob& job) {
    for (const TracedProgram& one : TracedOf(graph_))
      RETURN_IF_ERROR(
          CheckNeighbours(one, RelativeStagesOf(MembersOf(job, one.rank), one.rank)));
    using Memory = StageSchedule::Memory;
    auto parts = StageParts(job, Memory::kCompared);
    if (!parts.ok()) {
      parts = StageParts(job, Memory::kIgnored);
      memory_is_assumed_ = true;
    }
    if (!parts.ok())
      return parts.status();
    for (const PipelineScaler::Part& part : *parts)
      RETURN_IF_ERROR(AddRank(job, part.rank, part.becomes, *part.program));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<PipelineScaler::Part>> StageParts(
      const ResolvedJob& job, StageSchedule::Memory memory) const {
    const std::vector<TracedProgram> traced = TracedOf(graph_);
    const std::map<int32_t, int32_t> leaders = LeadersByClass(resizing_.from(), traced);
    std::vector<PipelineScaler::Stage> stages;
    for (const TracedProgram& one : traced) {
      const bool leads = leaders.at(resizing_.OldPlace(one.rank)) == one.rank;
      const RelativeStages relative =
          RelativeStagesOf(MembersOf(job, one.rank), one.rank);
      stages.push_back({one.rank, leads, StageSchedule(one.program, relative, memory)});
    }
    ASSIGN_OR_RETURN(const PipelineScaler scaler,
                     PipelineScaler::Make(&resizing_, std::move(stages)));
    return scaler.Parts();
  }

  RelativeStages RelativeStagesOf(const MembersByNumber& members, int32_t rank) const {
    RelativeStages stages;
    for (const auto& [number, ranks] : members) {
      if ((resizing_.from().Varying(ranks) & resizing_.resized()) == 0)
        continue;
      for (const int32_t member : ranks)
        stages[number].push_back(resizing_.OldPlace(member) - resizing_.OldPlace(rank));
    }
    return stages;
  }

  static absl::Status CheckNeighbours(const TracedProgram& traced,
                                      const RelativeStages& stages) {
    const Program& program = *traced.program;
    for (uint64_t i = 0; i < program.size(); ++i) {
      const Op& op = program.op(i);
      if (op.kind != OpKind::kTransfers || !stages.contains(op.a))
        continue;
      const std::vector<int32_t>& away = stages.at(op.a);
      for (const Transfer& transfer : program.details().transfer_groups[op.b]) {
        if (transfer.peer < away.size() && std::abs(away[transfer.peer]) > 1)
          return absl::FailedPreconditionError(
              fmt::format("rank {} exchanges with a stage that is {} away, as "
                          "interleaved schedules "
                          "do; they can't be scaled yet",
                          traced.rank, std::abs(away[transfer.peer])));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddRank(const ResolvedJob& job, int32_t rank, int32_t becomes,
                       const Program& program) {
    ASSIGN_OR_RETURN(std::unique_ptr<Program> scaled,
                     ScaleProgram(resizing_, rank, becomes, program,
                                  MembersOf(job, rank), memory_, &counts_));
    traced_.push_back(
        {becomes, fmt::format("rank {} of the graph", rank), scaled.get()});
    scaled_.programs.push_back(std::move(scaled));
    return absl::OkStatus();
  }

  // Creations alone are played.
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

  // Replicas do what they did, which fits together as it did. In which order stages
  // exchange was made up here.
  absl::Status CheckSchedule(const std::vector<GroupHint>& hints) const {
    if (!resizing_.stages())
      return absl::OkStatus();
    std::vector<int32_t> traced;
    for (const TracedProgram& one : traced_)
      traced.push_back(one.rank);
    MembershipInference membership(to(), traced, hints, CallSource::kTraced);
    ASSIGN_OR_RETURN(const ResolvedJob job,
                     ResolveCommunicators(JobOf(scaled_), &membership));
    const FreeNetwork network;
    if (const auto replay = ReplayFolded(job, network, {}); !replay.ok())
      return absl::FailedPreconditionError(
          fmt::format("the schedule that follows for {} does not fit together: {}",
                      to().ToString(), std::string(replay.status().message())));
    return absl::OkStatus();
  }

  void AddLosses() {
    const std::string subject =
        fmt::format("{} to {}", resizing_.from().ToString(), resizing_.to().ToString());
    if (resizing_.stages())
      scaled_.losses.push_back(
          {"scaled_stages", subject,
           "each stage keeps its layers, so that the model is deeper or shallower; "
           "stages in the middle do what a traced one did",
           static_cast<uint64_t>(resizing_.new_size())});
    if (memory_is_assumed_)
      scaled_.losses.push_back(
          {"scaled_stage_memory", subject,
           "which pass allocates what it keeps differs between the traced stages, so "
           "that memory is that of copied passes; peaks are assumed",
           static_cast<uint64_t>(resizing_.new_size())});
    if (!resizing_.stages())
      scaled_.losses.push_back(
          {"scaled_replicas", subject,
           "work, host time, memory and micro-batches of a rank are those of the size "
           "that was traced, also of what is sharded over replicas",
           static_cast<uint64_t>(to().world_size())});
    if (counts_.sharded > 0)
      scaled_.losses.push_back(
          {"scaled_shares", subject,
           "operations of traced ranks whose share of a member was taken to change "
           "with the number of members",
           counts_.sharded});
    if (counts_.kept > 0)
      scaled_.losses.push_back(
          {"scaled_kept_sizes", subject,
           "operations of traced ranks in resized communicators that "
           "were taken to keep their size",
           counts_.kept});
  }

  const ExecutionGraph& graph_;
  const Resizing& resizing_;
  const CommunicatorMemory memory_;
  ExecutionGraph scaled_;
  std::vector<TracedProgram> traced_;
  ScaleCounts counts_;
  bool memory_is_assumed_ = false;
};

}  // namespace

absl::StatusOr<ExecutionGraph> ScaleGraph(const ExecutionGraph& graph,
                                          const ResolvedJob& job,
                                          const std::vector<GroupHint>& hints,
                                          const CommunicatorMemory& memory,
                                          const Layout& to) {
  if (!graph.recorded_ranks.empty())
    return absl::InvalidArgumentError(
        "the graph was imported: its operations last as they were recorded, at any "
        "size; scale a graph of `vrank build`");
  for (int32_t rank = 0; rank < graph.world_size; ++rank) {
    const ExecutionGraph::Rank& part = graph.ranks[static_cast<size_t>(rank)];
    if (part.program != graph.ranks[static_cast<size_t>(part.leader)].program)
      return absl::UnimplementedError(fmt::format(
          "rank {} gathers or scatters by sends and receives, as torch.distributed's "
          "gather and scatter do; such a job can't be scaled yet",
          part.leader));
  }
  ASSIGN_OR_RETURN(Layout from, Layout::Parse(graph.layout, graph.world_size));
  ASSIGN_OR_RETURN(const Resizing resizing, Resizing::Make(std::move(from), to));
  return GraphScaler(graph, resizing, memory).Run(job, hints);
}

}  // namespace vrank::graph
