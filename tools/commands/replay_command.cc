#include "tools/commands/replay_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/machine_memory.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/export/goal.h"
#include "graph/export/perfetto.h"
#include "graph/file/graph_file.h"
#include "tools/compare/recording_comparison.h"
#include "tools/job/job_flags.h"
#include "tools/machine/file_options.h"
#include "tools/machine/installation.h"
#include "tools/machine/output_file.h"
#include "tools/replay/graph_replay.h"
#include "tools/replay/unfolded_replay.h"
#include "tools/replay/what_if_trials.h"
#include "tools/report/replay_report.h"
#include "tools/report/unfolded_report.h"
#include "tools/report/what_if_report.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/progress_line.h"

namespace vrank::tools {
namespace {

struct ReplayFlags {
  std::string graph;
  std::string cluster;
  std::vector<std::string> stragglers;
  std::string jitter;  // empty: none
  bool contention = false;
  uint64_t seed = 0;
  std::optional<std::string> iteration_range;
  int32_t iteration = -1;  // -1: the last one
  std::string perfetto;
  std::string perfetto_ranks;  // empty: one process per class
  bool perfetto_run = false;   // not only the iteration
  std::string goal;
  std::string executor, vector;  // empty: the fastest, the best
  uint32_t threads = 0;          // 0: as many as the machine has
  std::string rank_table;
  bool collectives = false;
  bool against_recording = false;
  std::vector<std::string> what_ifs;
  bool what_if_table = false;
  bool json = false;
  bool quiet = false;
};

// Which flag asks for a report about every rank; empty: none does.
std::string WhyEveryRank(const ReplayFlags& flags) {
  return flags.contention                             ? "--contention"
         : !flags.jitter.empty()                      ? "--jitter"
         : !flags.executor.empty()                    ? "--executor"
         : !flags.rank_table.empty()                  ? "--rank-table"
         : !flags.vector.empty()                      ? "--vector"
         : flags.threads != 0 && !flags.what_if_table ? "--threads"
                                                      : "";
}

const std::map<std::string, graph::ReplayExecutor> kExecutors = {
    {"sweep", graph::ReplayExecutor::kSweep},
    {"worklist", graph::ReplayExecutor::kWorklist},
    {"folded", graph::ReplayExecutor::kFolded}};
const std::map<std::string, graph::VectorUnit> kUnits = {
    {"avx512", graph::VectorUnit::kAvx512},
    {"avx2", graph::VectorUnit::kAvx2},
    {"scalar", graph::VectorUnit::kScalar}};

absl::StatusOr<UnfoldedOptions> MakeUnfoldedOptions(const ReplayFlags& flags) {
  UnfoldedOptions options;
  options.threads = flags.threads;
  const bool of_sweep = flags.threads != 0 || !flags.vector.empty();
  if (flags.contention && (of_sweep || !flags.executor.empty()))
    return absl::InvalidArgumentError(
        "--contention: links are shared by the event executor alone; leave --executor, "
        "--threads and --vector out");
  // Asked for, it is not replaced by another one without a word.
  if (of_sweep)
    options.executor = graph::ReplayExecutor::kSweep;
  if (!flags.executor.empty())
    options.executor = kExecutors.at(flags.executor);
  if (of_sweep && options.executor != graph::ReplayExecutor::kSweep)
    return absl::InvalidArgumentError(fmt::format(
        "--executor {}: it has one thread and no vectors; leave --threads and --vector "
        "out",
        flags.executor));
  if (!flags.vector.empty())
    options.unit = kUnits.at(flags.vector);
  return options;
}

// What what-ifs do not go together with.
absl::Status CheckWhatIfs(const ReplayFlags& flags,
                          const std::vector<graph::WhatIf>& what_ifs) {
  if (flags.what_if_table) {
    const std::string every = WhyEveryRank(flags);
    const std::string other = !every.empty()            ? every
                              : !flags.perfetto.empty() ? "--perfetto"
                              : !flags.goal.empty()     ? "--goal"
                              : flags.collectives       ? "--collectives"
                              : flags.against_recording ? "--against-recording"
                                                        : "";
    if (!other.empty())
      return absl::InvalidArgumentError(fmt::format(
          "--what-if-table: its rows are iteration times of many replays, each of one "
          "rank of a colour; leave {} out",
          other));
  }
  if (!what_ifs.empty() && flags.against_recording)
    return absl::InvalidArgumentError(
        "--against-recording: a job with what-ifs is not the one that was recorded; "
        "leave --what-if out");
  if (!flags.contention)
    return absl::OkStatus();
  for (const graph::WhatIf& edit : what_ifs)
    if (edit.ChangesCommunication())
      return absl::InvalidArgumentError(fmt::format(
          "--what-if '{}': with --contention, shared links decide how long operations "
          "take; leave one of both out",
          edit.text));
  return absl::OkStatus();
}

absl::StatusOr<GraphReplayOptions> MakeOptions(const ReplayFlags& flags,
                                               const graph::ExecutionGraph& graph) {
  GraphReplayOptions options;
  options.cluster = flags.cluster;
  options.collectives = flags.collectives;
  ASSIGN_OR_RETURN(options.iteration_pattern,
                   IterationPattern(graph, flags.iteration_range));
  ASSIGN_OR_RETURN(options.work_factors,
                   ParseStragglers(flags.stragglers, graph.world_size));
  options.contention = flags.contention;
  ASSIGN_OR_RETURN(options.what_ifs, ParseWhatIfs(flags.what_ifs));
  RETURN_IF_ERROR(CheckWhatIfs(flags, options.what_ifs));
  const std::string every = WhyEveryRank(flags);
  if (!every.empty() &&
      (!flags.perfetto.empty() || flags.collectives || flags.iteration >= 0 ||
       flags.against_recording || !flags.goal.empty()))
    return absl::InvalidArgumentError(fmt::format(
        "{}: with it the report is about every rank, and timelines are not kept; leave "
        "--perfetto, --goal, --collectives, --iteration and --against-recording out",
        every));
  if (!flags.jitter.empty()) {
    const absl::StatusOr<double> share = ParsePercent(flags.jitter);
    if (share.ok())
      options.jitter = {
          static_cast<uint32_t>(std::lround(*share * graph::Jitter::kWhole)),
          flags.seed};
    if (!options.jitter.on())
      return absl::InvalidArgumentError(fmt::format(
          "--jitter '{}': give a share like 2%, from 0.0001% to 100%", flags.jitter));
  }
  return options;
}

// What of the replay goes into the Perfetto trace.
absl::StatusOr<graph::PerfettoOptions> ChoosePerfetto(
    const ReplayFlags& flags, const GraphReplay& replay,
    const graph::ReplayReport& report) {
  graph::PerfettoOptions options;
  options.job = &replay.job();
  options.quotient = &replay.quotient();
  if (!flags.perfetto_ranks.empty()) {
    ASSIGN_OR_RETURN(RankList list,
                     ParseRankFlag("--perfetto-ranks", flags.perfetto_ranks,
                                   replay.graph().world_size));
    options.ranks = std::move(list.ranks);
  }
  if (flags.perfetto_run || report.classes.empty())
    return options;
  options.spans.resize(replay.timeline().ranks().size());
  for (const graph::RankReport& one : report.classes) {
    const graph::Iteration& iteration = one.iterations[report.iteration];
    options.spans[replay.timeline().PlaceOf(one.rank)] = {iteration.begin_ns,
                                                          iteration.end_ns};
  }
  return options;
}

OutputFile PerfettoFile(const ReplayFlags& flags) {
  return {"--perfetto", flags.perfetto};
}

absl::Status ExportPerfetto(const ReplayFlags& flags, const GraphReplay& replay,
                            const graph::ReplayReport& report) {
  ASSIGN_OR_RETURN(const graph::PerfettoOptions options,
                   ChoosePerfetto(flags, replay, report));
  return WriteOutput(PerfettoFile(flags), [&](std::ostream& file) {
    return graph::WritePerfetto(replay.timeline(), options, file);
  });
}

OutputFile GoalFile(const ReplayFlags& flags) {
  return {"--goal", flags.goal};
}

// Measured: 371 bytes per node of a job with 2 million of them, 368 with 17 million.
constexpr uint64_t kGoalBytesPerNode = 370;

absl::Status CheckMemoryForGoal(const graph::ExecutionGraph& graph) {
  uint64_t nodes = 0;
  for (const graph::ExecutionGraph::Rank& rank : graph.ranks)
    nodes += graph.programs[rank.program]->size();
  const uint64_t needed = nodes * kGoalBytesPerNode;
  const uint64_t available = ReadMachineMemory().least();
  if (needed <= available)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "--goal: the schedule has a node for each of {} of every rank, which takes some "
      "{} "
      "of memory while it is made, and {} are available; `vrank scale` makes a smaller "
      "job of the graph",
      FormatCount(nodes), FormatBytes(static_cast<double>(needed)),
      FormatBytes(static_cast<double>(available))));
}

// The report shows classes of ranks with one timeline; a schedule has every rank.
absl::StatusOr<graph::GoalFacts> ExportGoal(const ReplayFlags& flags,
                                            const graph::ExecutionGraph& graph,
                                            const Installation& installation,
                                            GraphReplayOptions options,
                                            ProgressLine& progress) {
  progress.Show(fmt::format("playing {} ranks, each for itself", graph.world_size));
  options.every_rank = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphReplay> replay,
                   GraphReplay::Play(graph, installation, options));
  graph::GoalFacts facts;
  absl::Status room;
  const auto begin = [&](uint64_t bytes) {
    progress.Show(fmt::format("writing {}: {}", flags.goal,
                              FormatBytes(static_cast<double>(bytes))));
    room = CheckRoom(GoalFile(flags), bytes);
    return room;
  };
  const absl::Status status = WriteOutput(GoalFile(flags), [&](std::ostream& file) {
    const auto written = graph::WriteGoal(replay->timeline(), file, begin);
    if (written.ok())
      facts = *written;
    return written.status();
  });
  RETURN_IF_ERROR(room);
  RETURN_IF_ERROR(status);
  return facts;
}

// The report takes the last iteration where there are fewer than asked for.
absl::Status CheckIteration(int32_t wanted, const graph::ReplayReport& report) {
  const size_t count = report.iteration_time_ns.size();
  if (wanted < 0 || static_cast<size_t>(wanted) < count)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--iteration {}: there {}", wanted,
                  count == 0   ? std::string("is no iteration")
                  : count == 1 ? std::string("is only iteration 0")
                               : fmt::format("are iterations 0-{}", count - 1)));
}

// The exit code.
absl::StatusOr<int> Replay(const ReplayFlags& flags) {
  if (!flags.perfetto.empty())
    RETURN_IF_ERROR(CheckOutput(PerfettoFile(flags)));
  if (!flags.goal.empty())
    RETURN_IF_ERROR(CheckOutput(GoalFile(flags)));
  if (!flags.rank_table.empty())
    RETURN_IF_ERROR(CheckOutput({"--rank-table", flags.rank_table}));
  ProgressLine progress(flags.quiet);
  progress.Show(fmt::format("opening {}", flags.graph));
  ASSIGN_OR_RETURN(const graph::ExecutionGraph graph, graph::OpenGraph(flags.graph));
  ASSIGN_OR_RETURN(const GraphReplayOptions options, MakeOptions(flags, graph));
  if (!flags.goal.empty())
    RETURN_IF_ERROR(CheckMemoryForGoal(graph));
  ASSIGN_OR_RETURN(const UnfoldedOptions unfolded, MakeUnfoldedOptions(flags));
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  progress.Show(fmt::format("playing {} ranks", graph.world_size));
  if (flags.what_if_table) {
    ASSIGN_OR_RETURN(
        const WhatIfTrials trials,
        TryWhatIfs(graph, installation, options,
                   {flags.iteration, flags.threads,
                    [&progress](const std::string& text) { progress.Show(text); }}));
    const std::string table =
        flags.json ? WhatIfTableJson(graph, trials) : WhatIfTableText(graph, trials);
    progress.Clear();
    return PrintResult("replay", table, {});
  }
  if (!WhyEveryRank(flags).empty()) {
    ASSIGN_OR_RETURN(const UnfoldedReplay played,
                     ReplayUnfolded(graph, installation, options, unfolded));
    std::vector<std::string> written;
    if (!flags.rank_table.empty()) {
      RETURN_IF_ERROR(
          WriteRankTable({"--rank-table", flags.rank_table}, graph, played));
      written.push_back(flags.rank_table);
    }
    const std::string report = flags.json ? UnfoldedJson(graph, played, options)
                                          : UnfoldedText(graph, played, options);
    progress.Clear();
    return PrintResult("replay", report, written);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphReplay> replay,
                   GraphReplay::Play(graph, installation, options));
  progress.Show("looking at the result");
  std::optional<size_t> iteration;
  if (flags.iteration >= 0)
    iteration = static_cast<size_t>(flags.iteration);
  const graph::ReplayReport report =
      replay->Report(options.iteration_pattern, iteration);
  RETURN_IF_ERROR(CheckIteration(flags.iteration, report));
  if (!flags.perfetto.empty())
    RETURN_IF_ERROR(ExportPerfetto(flags, *replay, report));
  ReplayExtras extras;
  extras.collectives = flags.collectives;
  if (!flags.goal.empty()) {
    ASSIGN_OR_RETURN(extras.goal,
                     ExportGoal(flags, graph, installation, options, progress));
  }
  if (!options.what_ifs.empty()) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> before,
                     IterationTimesBefore(graph, installation, options));
    if (report.iteration < before.size())
      extras.what_if = {options.what_ifs,
                        replay->edited(),
                        report.iteration,
                        before[report.iteration],
                        report.iteration_time_ns[report.iteration],
                        MeanOfLater(before),
                        MeanOfLater(report.iteration_time_ns)};
  }
  if (flags.against_recording) {
    ASSIGN_OR_RETURN(extras.against_recording, CompareWithRecording(*replay, report));
  }
  progress.Clear();
  std::vector<std::string> written;
  for (const std::string& file : {flags.perfetto, flags.goal})
    if (!file.empty())
      written.push_back(file);
  return PrintResult("replay",
                     flags.json ? ReplayJson(*replay, report, extras) + "\n"
                                : ReplayText(*replay, report, extras),
                     written);
}

template <typename Value>
std::vector<std::string> Names(const std::map<std::string, Value>& named) {
  std::vector<std::string> names;
  for (const auto& [name, value] : named)
    names.push_back(name);
  return names;
}

// CLI11 takes a number that is too large as the largest one.
std::string CheckSeed(const std::string& text) {
  uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  if (const auto [at, error] = std::from_chars(text.data(), end, seed);
      error == std::errc() && at == end)
    return "";
  return fmt::format("'{}': give a whole number from 0 to {}", text, UINT64_MAX);
}

}  // namespace

int RunReplayCommand(const CommandLine& line) {
  CLI::App app;
  ReplayFlags flags;
  Reads(app.add_option("graph", flags.graph)->required());
  Reads(app.add_option("--cluster", flags.cluster));
  AddStragglerFlag(&app, &flags.stragglers);
  CLI::Option* const jitter = app.add_option("--jitter", flags.jitter);
  app.add_option("--seed", flags.seed)->check(CheckSeed)->needs(jitter);
  app.add_flag("--contention", flags.contention);
  app.add_option("--iteration-range", flags.iteration_range);
  app.add_option("--iteration", flags.iteration)->check(CLI::Range(0, 1 << 30));
  CLI::Option* const perfetto = Writes(app.add_option("--perfetto", flags.perfetto));
  app.add_option("--perfetto-ranks", flags.perfetto_ranks)->needs(perfetto);
  app.add_flag("--perfetto-run", flags.perfetto_run)->needs(perfetto);
  Writes(app.add_option("--goal", flags.goal));
  app.add_option("--executor", flags.executor)->check(CLI::IsMember(Names(kExecutors)));
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 1024));
  app.add_option("--vector", flags.vector)->check(CLI::IsMember(Names(kUnits)));
  Writes(app.add_option("--rank-table", flags.rank_table));
  app.add_flag("--collectives", flags.collectives);
  app.add_flag("--against-recording", flags.against_recording);
  app.add_option("--what-if", flags.what_ifs)->take_all()->allow_extra_args(false);
  app.add_flag("--what-if-table", flags.what_if_table);
  app.add_flag("--json", flags.json);
  app.add_flag("--quiet", flags.quiet);
  if (const auto exit = ParseFlags("replay", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("replay",
                      "a replay runs no program; `vrank emulate --graph` runs one");
  const absl::StatusOr<int> code = Replay(flags);
  return code.ok() ? *code : JobError("replay", code.status());
}

}  // namespace vrank::tools
