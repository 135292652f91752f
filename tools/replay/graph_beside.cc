#include "tools/replay/graph_beside.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "graph/file/graph_file.h"
#include "graph/membership/layout.h"
#include "tools/job/stated_options.h"
#include "tools/replay/graph_cluster.h"
#include "tools/replay/graph_losses.h"

namespace vrank::tools {

absl::StatusOr<std::unique_ptr<GraphBeside>> GraphBeside::Open(
    const std::string& path, const std::vector<std::string>& command,
    int32_t* world_size, JobFlags* flags) {
  std::unique_ptr<GraphBeside> self(new GraphBeside());
  self->path_ = path;
  self->command_ = command;
  ASSIGN_OR_RETURN(self->graph_, graph::OpenGraph(path));
  const graph::ExecutionGraph& graph = self->graph_;
  if (*world_size == 0)
    *world_size = graph.world_size;
  if (*world_size != graph.world_size)
    return absl::InvalidArgumentError(fmt::format(
        "--world-size {}: the graph {} is of {} ranks; leave the flag out, or build a "
        "graph of that size",
        *world_size, path, graph.world_size));
  if (flags->layout.empty())
    flags->layout = graph.layout;
  ASSIGN_OR_RETURN(const graph::Layout stated,
                   graph::Layout::Parse(flags->layout, *world_size));
  if (stated.ToString() != graph.layout)
    return absl::InvalidArgumentError(
        fmt::format("--layout {}: the graph {} has layout {}; leave the flag out",
                    flags->layout, path, graph.layout));
  if (flags->cluster.empty())
    flags->cluster = graph.cluster;
  if (flags->ranks_per_node == 0) {
    ASSIGN_OR_RETURN(flags->ranks_per_node, RanksPerNodeOf(graph));
  }
  if (!flags->iteration_range.has_value())
    flags->iteration_range = ValueOf(graph.cost_options, kIterationRangeOption);
  ASSIGN_OR_RETURN(GraphCast cast, GraphCast::Make(graph));
  self->cast_ = std::move(cast);
  // A program that is not there has errors of its own.
  const absl::StatusOr<bool> same_program = IsProgramOf(graph, command);
  self->same_program_ = same_program.ok() && *same_program;
  return self;
}

absl::Status GraphBeside::CheckGpu(const Job& job) const {
  if (job.gpu().short_name == graph_.gpu)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--gpu {}: the graph {} is of {}; use --gpu {}", job.flags().gpu,
                  path_, graph_.gpu, graph_.gpu));
}

absl::Status GraphBeside::Cast(RunOptions* options) const {
  options->virtual_ranks = cast_->Cast(options->real_ranks, same_program_);
  ASSIGN_OR_RETURN(options->group_hints, cast_->Hints());
  options->retain_programs = options->keep_communicators =
      same_program_ && graph_.virtual_gpu;  // for OtherProgramLosses
  return absl::OkStatus();
}

std::string GraphBeside::LikelyCause() const {
  return WhyAGraphMayNotFit(graph_, path_, command_);
}

absl::StatusOr<std::vector<LossRow>> GraphBeside::Losses(const Run& run,
                                                         const JobFlags& flags) const {
  ASSIGN_OR_RETURN(std::vector<LossRow> losses,
                   OutdatedGraphLosses(graph_, run.virtual_ranks(), command_));
  ASSIGN_OR_RETURN(std::vector<LossRow> costs,
                   OtherCostLosses(graph_, run.virtual_ranks(), flags));
  std::vector<LossRow> misfits = MisfitLosses(*cast_, run.virtual_ranks());
  std::vector<LossRow> changed;
  if (costs.empty() && !flags.real_gpu)
    changed = OtherProgramLosses(run);
  for (std::vector<LossRow>* more : {&costs, &misfits, &changed})
    losses.insert(losses.end(), std::make_move_iterator(more->begin()),
                  std::make_move_iterator(more->end()));
  return losses;
}

// Modules that a program imports are in no fingerprint: what the real ranks do shows
// that one has changed, and that others play what it no longer does.
std::vector<LossRow> GraphBeside::OtherProgramLosses(const Run& run) const {
  std::vector<LossRow> losses;
  const bool played = std::any_of(
      run.virtual_ranks().begin(), run.virtual_ranks().end(), [](const auto& rank) {
        return rank.part == emulator::VirtualRank::Part::kRecorded;
      });
  if (!played || !same_program_ || !graph_.virtual_gpu)
    return losses;
  const emulator::World& world = run.session().world();
  for (const auto& real : world.real()) {
    const std::string difference = cast_->DifferenceOf(real->rank(), real->program(),
                                                       SeatsIn(world, real->rank()));
    if (!difference.empty())
      losses.push_back(
          {"graph_of_another_run", fmt::format("rank {}: {}", real->rank(), difference),
           1,
           "real ranks that did something else than the graph has of them, "
           "while other ranks played the graph"});
  }
  return losses;
}

}  // namespace vrank::tools
