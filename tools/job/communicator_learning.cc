#include "tools/job/communicator_learning.h"

#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/world/cast.h"
#include "graph/build/group_layout.h"
#include "graph/build/rank_plan.h"
#include "tools/job/deciding_ranks.h"
#include "tools/job/hint_collector.h"

namespace vrank::tools {
namespace {

// How many ops of the program end with its first iteration; all where there is none.
uint64_t EndOfFirstIteration(const graph::Program& program, const Pattern& pattern) {
  std::vector<uint32_t> open;  // names of the ranges inside the iteration, and its own
  for (uint64_t i = 0; i < program.size(); ++i) {
    const graph::Op& op = program.op(i);
    if (op.kind == graph::OpKind::kRangeBegin &&
        (!open.empty() || pattern.Matches(program.details().names[op.a])))
      open.push_back(op.a);
    if (op.kind != graph::OpKind::kRangeEnd || open.empty())
      continue;
    // As in emulator::ResultCollector: a nameless end closes the innermost range.
    for (auto range = open.rbegin(); range != open.rend(); ++range) {
      if (op.a != 0 && *range != op.a)
        continue;
      open.erase(std::next(range).base());
      break;
    }
    if (open.empty())
      return i + 1;
  }
  return program.size();
}

// The job without a GPU: who belongs to a communicator is the same, and all these ranks
// need not share the GPUs of this machine.
absl::StatusOr<Job> OnVirtualGpus(const Job& job) {
  JobFlags flags = job.flags();
  flags.real_gpu = false;
  return Job::Make(flags, job.world_size(), job.command());
}

// Runs these ranks, up to the end that is wanted.
absl::StatusOr<std::unique_ptr<Run>> Learn(const Job& job,
                                           const std::vector<int32_t>& real,
                                           const std::vector<int32_t>& on_their_own,
                                           LearnUpTo end, RankOutput* output,
                                           bool* stopped) {
  RunOptions options = OptionsWithOutput(job, output);
  options.real_ranks = real;
  ASSIGN_OR_RETURN(options.virtual_ranks,
                   emulator::CastByClass(job.layout(), real, false, on_their_own));
  options.retain_programs = true;
  options.keep_communicators = true;
  *stopped = false;
  options.stop_when = [stopped, end](const emulator::World& world) {
    *stopped =
        end == LearnUpTo::kFirstIteration && world.results().CompletedIterations() > 0;
    return *stopped;
  };
  ASSIGN_OR_RETURN(std::unique_ptr<Run> run, Run::Make(job, std::move(options)));
  const absl::Status status = run->Execute();
  output->Clear();
  RETURN_IF_ERROR(status);
  return run;
}

graph::SeenRank See(const Job& job, const emulator::World& world,
                    emulator::RealRank& rank, bool stopped) {
  graph::SeenRank seen;
  seen.program = &rank.program();
  seen.end = stopped ? EndOfFirstIteration(rank.program(), job.iteration_pattern())
                     : rank.program().size();
  if (const auto served = world.communicators().find(rank.rank());
      served != world.communicators().end())
    for (const auto& [number, communicator] : served->second)
      seen.communicators[number] = {communicator.identity, communicator.members};
  return seen;
}

absl::StatusOr<std::string> LearnLayout(const Job& job, LearnUpTo end,
                                        RankOutput* output) {
  if (job.world_size() > kMostForLayout)
    return absl::InvalidArgumentError(fmt::format(
        "--layout: without it, all {} ranks would have to run at once to learn "
        "how they are arranged, which is done for at most {}; state "
        "--layout",
        job.world_size(), kMostForLayout));
  if (!job.flags().groups.empty())
    return absl::InvalidArgumentError(
        "--group names dimensions of a layout; state --layout, too");
  ASSIGN_OR_RETURN(const Job learner, OnVirtualGpus(job));
  std::vector<int32_t> ranks(static_cast<size_t>(job.world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  output->set_subject(
      fmt::format("learning the layout from all {} ranks", ranks.size()));
  bool stopped = false;
  ASSIGN_OR_RETURN(const std::unique_ptr<Run> run,
                   Learn(learner, ranks, {}, end, output, &stopped));
  const emulator::World& world = run->session().world();
  std::vector<graph::SeenRank> seen(ranks.size());
  for (const auto& rank : world.real())
    seen[static_cast<size_t>(rank->rank())] = See(job, world, *rank, stopped);
  ASSIGN_OR_RETURN(const graph::Layout layout, graph::LayoutOfCommunicators(seen));
  return layout.ToString();
}

}  // namespace

absl::StatusOr<LearnedGroups> LearnGroups(const Job& job, LearnUpTo end,
                                          const std::vector<int32_t>& traced,
                                          RankOutput* output) {
  ASSIGN_OR_RETURN(const Job learner, OnVirtualGpus(job));
  std::vector<int32_t> ranks = graph::PlanRanks(job.layout()).ranks();
  output->set_subject(
      fmt::format("learning the communicators from ranks {}", FormatRanks(ranks)));
  std::unique_ptr<Run> run;
  bool stopped = false;
  RETURN_IF_ERROR(RunWithDecidingRanks(
      &ranks,
      [&](const std::vector<int32_t>& real) -> absl::Status {
        ASSIGN_OR_RETURN(run, Learn(learner, real, traced, end, output, &stopped));
        return absl::OkStatus();
      },
      job.flags().quiet));
  const emulator::World& world = run->session().world();
  HintCollector collector(job.layout());
  for (const auto& rank : world.real())
    collector.AddRank(rank->rank(), See(job, world, *rank, stopped));
  return LearnedGroups{collector.Hints(), !stopped};
}

absl::StatusOr<Job> WithLayout(Job job, LearnUpTo end, RankOutput* output) {
  if (job.layout_was_stated())
    return job;
  JobFlags flags = job.flags();
  ASSIGN_OR_RETURN(flags.layout, LearnLayout(job, end, output));
  flags.layout_inferred = true;
  return Job::Make(flags, job.world_size(), job.command());
}

}  // namespace vrank::tools
