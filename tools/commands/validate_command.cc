#include "tools/commands/validate_command.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/world/cast.h"
#include "graph/build/rank_plan.h"
#include "graph/membership/deciding_rank.h"
#include "tools/compare/run_comparison.h"
#include "tools/job/communicator_learning.h"
#include "tools/job/deciding_ranks.h"
#include "tools/job/job.h"
#include "tools/job/job_flags.h"
#include "tools/job/rank_output.h"
#include "tools/machine/scratch_folder.h"
#include "tools/replay/graph_cast.h"
#include "tools/replay/graph_replay.h"
#include "tools/report/job_report.h"
#include "tools/report/validate_report.h"
#include "tools/slices/traced_graph.h"

namespace vrank::tools {
namespace {

// Sets of real ranks double with each rank: 2^12 - 2 runs are the most that make sense.
constexpr int32_t kMostForSubsets = 12;

struct ValidateFlags {
  JobFlags job;
  int32_t ranks = 0;
  std::vector<std::string> real;
  bool compare_output = false;
  bool via_graph = false;
  std::string trace_ranks;  // empty: as planned for the layout
};

absl::StatusOr<std::vector<std::vector<int32_t>>> ListCases(
    const ValidateFlags& flags) {
  std::vector<std::vector<int32_t>> cases;
  for (const std::string& text : flags.real) {
    if (text == "subsets") {
      if (flags.ranks > kMostForSubsets)
        return absl::InvalidArgumentError(fmt::format(
            "--real subsets: at most {} ranks, since their number doubles with each",
            kMostForSubsets));
      for (uint32_t set = 1; set + 1 < 1u << flags.ranks; ++set) {
        cases.emplace_back();
        for (int32_t rank = 0; rank < flags.ranks; ++rank)
          if ((set >> rank & 1) != 0)
            cases.back().push_back(rank);
      }
      continue;
    }
    ASSIGN_OR_RETURN(const RankList list, ParseRankFlag("--real", text, flags.ranks));
    if (!list.each) {
      cases.push_back(list.ranks);
      continue;
    }
    for (const int32_t rank : list.ranks)
      cases.push_back({rank});
  }
  return cases;
}

// The ranks, and the lowest of each class that has none: someone to follow for all.
std::vector<int32_t> WithEveryClass(const graph::Layout& layout,
                                    std::vector<int32_t> ranks) {
  std::set<int32_t> classes;
  for (const int32_t rank : ranks)
    classes.insert(layout.ClassOf(rank));
  for (int32_t rank = 0; rank < layout.world_size(); ++rank)
    if (classes.insert(layout.ClassOf(rank)).second)
      ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Runs a job several times and keeps what is compared.
class Validator {
 public:
  Validator(const Job& job, const ValidateFlags& flags)
      : job_(job), flags_(flags), output_(flags.job.quiet, "full run") {}

  absl::Status RunFull() {
    RunOptions options;
    options.real_ranks.resize(static_cast<size_t>(job_.world_size()));
    std::iota(options.real_ranks.begin(), options.real_ranks.end(), 0);
    options.retain_programs = true;
    options.keep_communicators = true;
    std::unique_ptr<Run> run;
    ASSIGN_OR_RETURN(full_, Record(std::move(options), "full run", true, &run));
    RETURN_IF_ERROR(CheckAssumed(job_.max_assumed(), MakeReport(job_, *run)));
    const emulator::World& world = run->session().world();
    for (const auto& rank : world.real()) {
      seats_[rank->rank()] = SeatsIn(world, rank->rank());
      programs_[rank->rank()] = rank->TakeProgram();
    }
    return absl::OkStatus();
  }

  // Slices, traced one at a time, become the graph that all cases play.
  absl::Status MakeGraph() {
    std::vector<int32_t> ranks = graph::PlanSlices(job_.layout()).ranks();
    if (!flags_.trace_ranks.empty()) {
      ASSIGN_OR_RETURN(RankList list, ParseRankFlag("--trace-ranks", flags_.trace_ranks,
                                                    job_.world_size()));
      ranks = std::move(list.ranks);
    }
    ASSIGN_OR_RETURN(TracedGraph made, TraceAndBuild(job_, ranks, &output_));
    graph_ = std::move(made.graph);
    ASSIGN_OR_RETURN(GraphCast cast, GraphCast::Make(*graph_));
    cast_ = std::move(cast);
    return absl::OkStatus();
  }

  // Ranks that the graph has do something else than they did in the full run.
  std::vector<GraphDifference> Differences() const {
    std::vector<GraphDifference> differences;
    for (const auto& [rank, program] : programs_) {
      std::string found = cast_->DifferenceOf(rank, *program, seats_.at(rank));
      if (!found.empty())
        differences.push_back({rank, cast_->TracedFor(rank), std::move(found)});
    }
    return differences;
  }

  // The graph alone.
  absl::StatusOr<ValidateCase> Replay() {
    GraphReplayOptions options;
    options.iteration_pattern = job_.iteration_pattern();
    options.work_factors = job_.stragglers();
    options.member_ends = true;
    ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
    ASSIGN_OR_RETURN(const std::unique_ptr<GraphReplay> replay,
                     GraphReplay::Play(*graph_, installation, options));
    ValidateCase result;
    result.recorded = Compare(full_, MakeRecord(*replay));
    return result;
  }

  absl::StatusOr<ValidateCase> RunCase(const std::vector<int32_t>& real) {
    ValidateCase result;
    result.real_ranks = real;
    RunOptions options;
    options.real_ranks = real;
    if (graph_.has_value()) {
      options.virtual_ranks = cast_->Cast(real, /*same_program=*/true);
      ASSIGN_OR_RETURN(options.group_hints, cast_->Hints());
    }
    for (auto& [rank, program] : programs_)
      if (!graph_.has_value() && !std::binary_search(real.begin(), real.end(), rank))
        options.virtual_ranks.push_back(emulator::VirtualRank{
            rank, emulator::VirtualRank::Part::kRecorded, -1, program.get()});
    const std::string name = fmt::format("real {}", FormatRanks(real));
    std::unique_ptr<Run> run;
    ASSIGN_OR_RETURN(const RunRecord hybrid,
                     Record(std::move(options), name, false, &run));
    run.reset();
    result.recorded = Compare(full_, hybrid);
    if (!graph_.has_value() && job_.layout_was_stated())
      RETURN_IF_ERROR(RunLive(&result));
    return result;
  }

  RankOutput& output() { return output_; }

 private:
  // What keeps virtual ranks from following live is told, and no error.
  absl::Status RunLive(ValidateCase* result) {
    std::vector<int32_t>& real = result->live_real_ranks;
    real = WithEveryClass(job_.layout(), result->real_ranks);
    RunRecord record;
    const absl::Status status = RunWithDecidingRanks(
        &real,
        [&](const std::vector<int32_t>& ranks) -> absl::Status {
          if (static_cast<int32_t>(ranks.size()) == job_.world_size())
            return absl::FailedPreconditionError(
                "every rank would have to be real, and none is left to follow");
          RunOptions options;
          options.real_ranks = ranks;
          ASSIGN_OR_RETURN(options.virtual_ranks,
                           emulator::CastByClass(job_.layout(), ranks, false));
          std::unique_ptr<Run> run;
          ASSIGN_OR_RETURN(
              record, Record(std::move(options),
                             fmt::format("real {}, followed live", FormatRanks(ranks)),
                             false, &run));
          return absl::OkStatus();
        },
        flags_.job.quiet);
    if (status.ok())
      result->live = Compare(full_, record);
    else
      result->live_not_run = std::string(status.message());
    return absl::IsCancelled(status) ? status : absl::OkStatus();
  }

  absl::StatusOr<RunRecord> Record(RunOptions options, const std::string& name,
                                   bool show_output, std::unique_ptr<Run>* run) {
    std::map<int32_t, std::vector<std::string>> lines;
    options.member_ends = true;
    if (!flags_.job.log_dir.empty())
      options.log_dir = fmt::format("{}/{}", flags_.job.log_dir, name);
    options.on_line = [&](int32_t rank, bool is_stderr, std::string_view line) {
      if (flags_.compare_output && !is_stderr)
        lines[rank].emplace_back(line);
      if (show_output || is_stderr)
        output_.Line(rank, is_stderr, line);
    };
    options.on_progress = [this](const emulator::Progress& progress) {
      output_.Update(progress);
    };
    options.on_note = [this](const std::string& text) { output_.Note(text); };
    output_.set_subject(name);
    ASSIGN_OR_RETURN(*run, Run::Make(job_, std::move(options)));
    const absl::Status status = (*run)->Execute();
    output_.Clear();
    if (!status.ok()) {
      absl::Status named(status.code(),
                         fmt::format("{}: {}", name, std::string(status.message())));
      if (const auto rank = graph::DecidingRankOf(status); rank.has_value())
        graph::AttachDecidingRank(*rank, &named);
      return named;
    }
    return MakeRecord(**run, std::move(lines));
  }

  const Job& job_;
  const ValidateFlags& flags_;
  RankOutput output_;
  RunRecord full_;
  std::map<int32_t, std::unique_ptr<graph::Program>> programs_;  // of the full run
  std::map<int32_t, graph::Seats> seats_;                        // in it
  std::optional<graph::ExecutionGraph> graph_;
  std::optional<GraphCast> cast_;  // of graph_
};

// Ranks that cannot make the graph are told before anything runs.
absl::Status CheckTraceRanks(const Job& job, const ValidateFlags& flags) {
  if (flags.trace_ranks.empty())
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const RankList list,
                   ParseRankFlag("--trace-ranks", flags.trace_ranks, flags.ranks));
  if (!job.layout_was_stated())
    return absl::OkStatus();
  std::set<int32_t> traced;
  for (const int32_t rank : list.ranks)
    traced.insert(job.layout().ClassOf(rank));
  for (const graph::RankPlan::Entry& entry : graph::PlanRanks(job.layout()).entries)
    if (!entry.deciding && !traced.contains(entry.rank_class))
      return absl::InvalidArgumentError(fmt::format(
          "--trace-ranks {}: a graph needs a trace of each class of ranks, and none "
          "of these is of {}; add rank {}, or leave the flag out",
          flags.trace_ranks, entry.class_name, entry.rank));
  return absl::OkStatus();
}

int Validate(const Job& job, const ValidateFlags& flags,
             const std::vector<std::vector<int32_t>>& case_list) {
  Validator validator(job, flags);
  std::vector<ValidateCase> cases;
  absl::Status status = validator.RunFull();
  if (status.ok() && flags.via_graph)
    status = validator.MakeGraph();
  if (status.ok() && flags.via_graph) {
    auto replay = validator.Replay();
    status = replay.status();
    if (replay.ok())
      cases.push_back(*std::move(replay));
  }
  for (const std::vector<int32_t>& real : case_list) {
    if (!status.ok())
      break;
    auto one = validator.RunCase(real);
    status = one.status();
    if (one.ok())
      cases.push_back(std::move(*one));
  }
  if (!status.ok()) {
    validator.output().ShowTail();
    return JobError("validate", status);
  }
  ValidateResult result;
  result.cases = std::move(cases);
  result.with_output = flags.compare_output;
  if (flags.via_graph)
    result.graph_differences = validator.Differences();
  if (const int code =
          PrintResult("validate", flags.job.json ? ValidateJson(job, result) + "\n"
                                                 : ValidateText(job, result));
      code != kExitFine)
    return code;
  const bool equal =
      std::all_of(result.cases.begin(), result.cases.end(), [](const auto& one) {
        return one.recorded.Equal() && (!one.live.has_value() || one.live->Equal());
      });
  return equal ? kExitFine : kExitFailed;
}

}  // namespace

int RunValidateCommand(const CommandLine& line) {
  CLI::App app;
  ValidateFlags flags;
  AddJobFlags(&app, &flags.job);
  AddStragglerFlag(&app, &flags.job.stragglers);
  app.add_option("--ranks,--world-size", flags.ranks)
      ->required()
      ->check(CLI::Range(1, 4096));
  app.add_option("--real", flags.real)->required()->take_all()->allow_extra_args(false);
  app.add_flag("--compare-output", flags.compare_output);
  CLI::Option* const via_graph = app.add_flag("--via-graph", flags.via_graph);
  app.add_option("--trace-ranks", flags.trace_ranks)->needs(via_graph);
  if (const auto exit = ParseFlags("validate", &app, line.flags); exit.has_value())
    return *exit;
  if (line.program.empty())
    return UsageError("validate", "no program to run; put it after --");
  ImplyLauncher(line.program, &flags.job);
  auto job = Job::Make(flags.job, flags.ranks, line.program);
  if (!job.ok())
    return UsageError("validate", std::string(job.status().message()));
  if (const absl::Status ranks = CheckTraceRanks(*job, flags); !ranks.ok())
    return JobError("validate", ranks);
  const auto cases = ListCases(flags);
  if (!cases.ok())
    return UsageError("validate", std::string(cases.status().message()));
  if (!flags.via_graph)
    return Validate(*job, flags, *cases);
  if (const auto scratch = ScratchFolder::Make(); !scratch.ok())
    return JobError("validate", scratch.status());
  RankOutput output(flags.job.quiet, "validate");
  const auto with_layout = WithLayout(*std::move(job), LearnUpTo::kEnd, &output);
  if (!with_layout.ok()) {
    output.ShowTail();
    return JobError("validate", with_layout.status());
  }
  if (const absl::Status ranks = CheckTraceRanks(*with_layout, flags); !ranks.ok())
    return JobError("validate", ranks);
  return Validate(*with_layout, flags, *cases);
}

}  // namespace vrank::tools
