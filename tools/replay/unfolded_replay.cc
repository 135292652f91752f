#include "tools/replay/unfolded_replay.h"

#include <algorithm>
#include <utility>

#include "base/machine_memory.h"
#include "base/status_macros.h"

namespace vrank::tools {
namespace {

UnfoldedSummary Summarize(const graph::ExecutionGraph& graph,
                          const graph::ResolvedJob& job,
                          const graph::EveryRank& every) {
  UnfoldedSummary report;
  report.classes.resize(graph.classes.size());
  const std::vector<bool> absent = AbsentRanks(graph);
  for (size_t place = 0; place < job.job.ranks.size(); ++place) {
    const graph::ReplayJob::Rank& rank = job.job.ranks[place];
    if (!absent.empty() && absent[static_cast<size_t>(rank.world_rank)])
      continue;
    const graph::RankResult& result = every.results[place];
    const graph::RankActivity& activity = every.activities[place];
    const std::vector<int64_t> times =
        IterationTimes(*rank.program, every.marks[place]);
    if (report.iterations.size() < times.size())
      report.iterations.resize(times.size());
    for (size_t i = 0; i < times.size(); ++i)
      report.iterations[i].Add(times[i], rank.world_rank);
    ClassActivity& one =
        report.classes[graph.ranks[static_cast<size_t>(rank.world_rank)].rank_class];
    one.ranks.push_back(rank.world_rank);
    one.end.Add(result.end.ns, rank.world_rank);
    one.busy.Add(activity.busy_ns, rank.world_rank);
    one.communication.Add(activity.communication_ns, rank.world_rank);
    one.waited.Add(activity.communication_waited_ns, rank.world_rank);
    one.host_waited.Add(result.host_waited.nanoseconds(), rank.world_rank);
    one.peak_bytes = std::max(one.peak_bytes, result.peak_memory_bytes);
    if (result.end.ns > report.last_end.ns) {
      report.last_end = result.end;
      report.last_rank = rank.world_rank;
    }
    report.nodes += result.ops;
  }
  return report;
}

absl::StatusOr<UnfoldedReplay> PlayEveryRank(const graph::ExecutionGraph& graph,
                                             const Installation& installation,
                                             const GraphReplayOptions& options,
                                             const UnfoldedOptions& unfolded) {
  UnfoldedReplay played;
  ASSIGN_OR_RETURN(played.priced, PriceJob(graph, installation, options));
  if (options.contention) {
    ASSIGN_OR_RETURN(played.links, SharedLinks::Of(played.priced));
    played.priced.job.job.options.contention = played.links->contention();
  }
  graph::SweepOptions sweep;
  sweep.threads = unfolded.threads;
  sweep.unit = unfolded.unit;
  sweep.max_bytes = std::max<uint64_t>(1, ReadMachineMemory().least());
  sweep.observe = [&options](const std::string& name) {
    return options.iteration_pattern.Matches(name);
  };
  ASSIGN_OR_RETURN(played.every,
                   graph::ReplayEveryRank(played.priced.job, *played.priced.network,
                                          sweep, unfolded.executor));
  played.summary = Summarize(graph, played.priced.job, played.every);
  return played;
}

// Of the last iteration, on its slowest rank.
absl::StatusOr<WhatIfOutcome> CompareWithUnedited(const graph::ExecutionGraph& graph,
                                                  const Installation& installation,
                                                  const GraphReplayOptions& options,
                                                  const UnfoldedOptions& unfolded,
                                                  const UnfoldedReplay& edited) {
  GraphReplayOptions before = options;
  before.what_ifs.clear();
  ASSIGN_OR_RETURN(const UnfoldedReplay played,
                   PlayEveryRank(graph, installation, before, unfolded));
  const std::vector<Spread>& iterations = edited.summary.iterations;
  if (iterations.empty() || played.summary.iterations.size() != iterations.size())
    return absl::InvalidArgumentError(
        "--what-if: no range of the graph is named like an iteration, and replays of "
        "every rank find none; leave --jitter, --contention, --executor, --rank-table, "
        "--threads and --vector out, or give --iteration-range");
  WhatIfOutcome outcome;
  outcome.edits = options.what_ifs;
  outcome.nodes = edited.priced.edited;
  outcome.iteration = iterations.size() - 1;
  outcome.before_ns = played.summary.iterations.back().most;
  outcome.after_ns = iterations.back().most;
  return outcome;
}

}  // namespace

std::vector<int64_t> IterationTimes(const graph::Program& program,
                                    const std::vector<graph::RangeMark>& marks) {
  std::vector<int64_t> times;
  int64_t begin = 0;
  int depth = 0;
  for (const graph::RangeMark& mark : marks) {
    if (program.op(mark.op).kind == graph::OpKind::kRangeBegin) {
      if (depth++ == 0)
        begin = mark.host.ns;
    } else if (depth > 0 && --depth == 0) {
      times.push_back(mark.host.ns - begin);
    }
  }
  return times;
}

absl::StatusOr<UnfoldedReplay> ReplayUnfolded(const graph::ExecutionGraph& graph,
                                              const Installation& installation,
                                              const GraphReplayOptions& options,
                                              const UnfoldedOptions& unfolded) {
  ASSIGN_OR_RETURN(UnfoldedReplay played,
                   PlayEveryRank(graph, installation, options, unfolded));
  if (!options.what_ifs.empty()) {
    ASSIGN_OR_RETURN(played.what_if, CompareWithUnedited(graph, installation, options,
                                                         unfolded, played));
  }
  return played;
}

}  // namespace vrank::tools
