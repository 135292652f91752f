#include "tools/commands/emulate_command.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/decision_log.h"
#include "base/interruption.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/launch/launcher_command.h"
#include "emulator/world/cast.h"
#include "tools/job/communicator_learning.h"
#include "tools/job/deciding_ranks.h"
#include "tools/job/host_time_plan.h"
#include "tools/job/job.h"
#include "tools/job/job_flags.h"
#include "tools/job/rank_output.h"
#include "tools/machine/file_options.h"
#include "tools/replay/graph_beside.h"
#include "tools/report/job_report.h"
#include "tools/report/report_json.h"
#include "tools/report/report_text.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/say.h"

namespace vrank::tools {
namespace {

absl::StatusOr<std::vector<int32_t>> RealRanks(const Job& job,
                                               const EmulateFlags& flags) {
  ASSIGN_OR_RETURN(const RankList list,
                   ParseRankFlag("--real", flags.real, job.world_size()));
  if (list.each)
    return absl::InvalidArgumentError(
        "--real each belongs to `vrank validate`; name ranks, as in --real 0,512");
  return list.ranks;
}

// World size and real ranks that no flag states are what the command starts: what its
// launcher's options say, one rank without a launcher.
absl::Status FillFromLauncher(const std::vector<std::string>& program,
                              EmulateFlags* flags) {
  ImplyLauncher(program, &flags->job);
  const auto launcher = emulator::RecognizeLauncher(program);
  const bool is_launcher = launcher.has_value() || flags->job.launcher;
  // 0: not stated.
  int32_t started = launcher.has_value() ? launcher->ranks.value_or(0) : 0;
  if (flags->world_size == 0 && flags->graph.empty()) {
    if (started == 0 && is_launcher)
      return absl::InvalidArgumentError("--world-size or --graph is needed");
    flags->world_size = is_launcher ? started : 1;
  }
  // A program that starts its ranks itself starts all of them.
  if (!launcher.has_value() && (is_launcher || flags->world_size == 1))
    started = flags->world_size;
  if (!flags->real.empty())
    return absl::OkStatus();
  if (started == 0)
    return absl::InvalidArgumentError(
        launcher.has_value()
            ? fmt::format("--real is needed: the options of {} do not state how many "
                          "ranks it starts here",
                          launcher->name)
            : "--real is needed: ranks to run for real, as in --real 0,512");
  flags->real = fmt::format("0-{}", started - 1);
  return absl::OkStatus();
}

// A launcher starts the same ranks whatever vrank's flags are.
absl::Status CheckStarted(const std::vector<std::string>& program,
                          const std::vector<int32_t>& real_ranks, int32_t world_size) {
  const auto launcher = emulator::RecognizeLauncher(program);
  if (!launcher.has_value() || !launcher->ranks.has_value())
    return absl::OkStatus();
  const int32_t started = *launcher->ranks;
  if (started > world_size)
    return absl::InvalidArgumentError(
        fmt::format("--world-size {}: {} starts {} ranks; give it as many at most",
                    world_size, launcher->name, started));
  if (static_cast<int32_t>(real_ranks.size()) != started ||
      real_ranks.back() != started - 1)
    return absl::InvalidArgumentError(fmt::format(
        "--real {}: {} starts {}; leave --real out, let it start those, or leave "
        "the launcher out: without it vrank starts the program once per real rank",
        FormatRanks(real_ranks), launcher->name,
        started == 1 ? "rank 0" : fmt::format("ranks 0-{}", started - 1)));
  return absl::OkStatus();
}

// `graph`: nullptr where there is none.
absl::StatusOr<RunOptions> CastRanks(const Job& job, const EmulateFlags& flags,
                                     const GraphBeside* graph,
                                     const std::vector<int32_t>& real_ranks,
                                     RankOutput* output) {
  RunOptions options = OptionsWithOutput(job, output);
  options.real_ranks = real_ranks;
  if (graph != nullptr) {
    RETURN_IF_ERROR(graph->Cast(&options));
  } else {
    ASSIGN_OR_RETURN(
        options.virtual_ranks,
        emulator::CastByClass(job.layout(), options.real_ranks, flags.assume_absent));
  }
  options.collectives = flags.collectives;
  return options;
}

// The last attempt, if any was made, and how it ended.
struct Attempt {
  std::unique_ptr<Run> run;
  absl::Status status;
};

Attempt RunJob(const Job& job, const EmulateFlags& flags, const GraphBeside* graph,
               std::vector<int32_t> real_ranks, RankOutput* output) {
  std::unique_ptr<Run> run;
  const std::vector<int32_t> asked = real_ranks;
  std::optional<LearnedGroups> learned;
  const auto attempt = [&](std::vector<int32_t> ranks) -> absl::Status {
    // A further rank would take a real GPU from the others. A virtual one tells as
    // much about communicators.
    if (job.real_gpu() && ranks != asked && !learned.has_value()) {
      output->Note(
          "its communicators are learned on virtual GPUs instead, and the run "
          "begins again with the ranks that --real names");
      ASSIGN_OR_RETURN(learned,
                       LearnGroups(job, LearnUpTo::kFirstIteration, asked, output));
      ranks = asked;
    }
    ASSIGN_OR_RETURN(RunOptions options, CastRanks(job, flags, graph, ranks, output));
    if (learned.has_value())
      options.group_hints = learned->hints;
    ASSIGN_OR_RETURN(run, Run::Make(job, std::move(options)));
    const absl::Status status = run->Execute();
    output->Clear();
    return status;
  };
  // A launcher starts no further rank.
  if (job.flags().launcher) {
    absl::Status status = attempt(std::move(real_ranks));
    return {std::move(run), std::move(status)};
  }
  absl::Status status = RunWithDecidingRanks(
      &real_ranks, attempt,
      // A stage that the user calls absent gets a real rank only with a word about it.
      flags.job.quiet && !flags.assume_absent);
  return {std::move(run), std::move(status)};
}

// Prints the result of a job up to its failure, hang or interruption, if it completed
// an iteration. A result that was asked for by SIGINT is no death by signal: exit
// code 1.
void PrintUntilFailure(const std::string& command, const Job& job, const Run& run,
                       const EmulateFlags& flags, const absl::Status& failure) {
  JobReport report = MakeReport(job, run);
  if (report.iteration_time_ns.empty())
    return;
  report.failure = std::string(failure.message());
  PrintResult(command,
              flags.job.json ? ReportJson(report, flags.collectives) + "\n"
                             : ReportText(report),
              {});
  NoteInterruption(0);
}

// --log-schedule. A line is in the file once it is decided, so that the file of a job
// that hangs shows what came before.
class ScheduleLog {
 public:
  ScheduleLog() = default;
  ~ScheduleLog() {
    SendDecisionsTo(LogModule::schedule, nullptr);
    if (file_ != nullptr)
      fclose(file_);
  }
  ScheduleLog(const ScheduleLog&) = delete;
  ScheduleLog& operator=(const ScheduleLog&) = delete;

  // Nothing where no file is named.
  absl::Status Open(const std::string& path) {
    if (path.empty())
      return absl::OkStatus();
    file_ = fopen(path.c_str(), "we");
    if (file_ == nullptr)
      return absl::ErrnoToStatus(errno,
                                 fmt::format("--log-schedule {}: cannot write", path));
    setvbuf(file_, nullptr, _IOLBF, BUFSIZ);
    SendDecisionsTo(LogModule::schedule, file_);
    return absl::OkStatus();
  }

 private:
  FILE* file_ = nullptr;
};

// What --survive-failures cannot go with, and why; nullptr: nothing.
const char* AgainstSurvival(const EmulateFlags& flags) {
  if (!flags.job.survive_failures)
    return nullptr;
  if (flags.job.launcher)
    return "--launcher, which ends all ranks with the first";
  if (!flags.graph.empty())
    return "--graph: recorded ranks do what they did when none failed";
  if (flags.job.real_gpu)
    return "--real-gpu, where a lost rank has not been tried";
  return nullptr;
}

}  // namespace

int Emulate(const std::string& command, EmulateFlags flags,
            const std::vector<std::string>& program) {
  std::unique_ptr<GraphBeside> graph;
  if (!flags.graph.empty()) {
    auto opened =
        GraphBeside::Open(flags.graph, program, &flags.world_size, &flags.job);
    if (!opened.ok())
      return JobError(command, opened.status());
    graph = *std::move(opened);
  }
  auto job = Job::Make(flags.job, flags.world_size, program);
  if (!job.ok())
    return UsageError(command, std::string(job.status().message()));
  if (graph != nullptr)
    if (const absl::Status gpu = graph->CheckGpu(*job); !gpu.ok())
      return UsageError(command, std::string(gpu.message()));
  auto real_ranks = RealRanks(*job, flags);
  if (!real_ranks.ok())
    return UsageError(command, std::string(real_ranks.status().message()));
  if (const absl::Status started =
          CheckStarted(program, *real_ranks, job->world_size());
      !started.ok())
    return UsageError(command, std::string(started.message()));
  ScheduleLog schedule_log;
  if (const absl::Status opened = schedule_log.Open(flags.log_schedule); !opened.ok())
    return JobError(command, opened);
  RankOutput output(flags.job.quiet, "emulate", /*computes=*/flags.job.real_gpu);
  if (auto cast = CastRanks(*job, flags, graph.get(), *real_ranks, &output); !cast.ok())
    return UsageError(command, std::string(cast.status().message()));
  const Attempt attempt =
      RunJob(*job, flags, graph.get(), *std::move(real_ranks), &output);
  const std::unique_ptr<Run>& run = attempt.run;
  if (!attempt.status.ok()) {
    output.ShowTail();
    const std::string cause = graph != nullptr ? graph->LikelyCause() : "";
    const int code =
        JobError(command, absl::Status(attempt.status.code(),
                                       cause + std::string(attempt.status.message())));
    if (run != nullptr)
      PrintUntilFailure(command, *job, *run, flags, attempt.status);
    return code;
  }
  JobReport report = MakeReport(*job, *run);
  if (graph != nullptr) {  // the change under test makes another program: no error
    auto losses = graph->Losses(*run, flags.job);
    if (!losses.ok())
      return JobError(command, losses.status());
    for (LossRow& loss : *losses) {
      output.Note(fmt::format("{}, {} ranks: {}: {}", loss.name,
                              FormatCount(loss.count), loss.meaning, loss.subject));
      report.losses.push_back(std::move(loss));
    }
  }
  std::vector<std::string> written;
  if (!flags.job.record_payloads.empty())
    written.push_back(flags.job.record_payloads);
  if (!flags.job.record_host_time.empty())
    written.push_back(flags.job.record_host_time);
  const int code =
      PrintResult(command,
                  flags.job.json ? ReportJson(report, flags.collectives) + "\n"
                                 : ReportText(report),
                  written);
  if (run->session().addresses_randomized())
    Say("vrank: address randomisation could not be switched off; programs that "
        "order things by host address may differ between two runs\n");
  if (absl::Status shared = CheckSharedGpus(report); !shared.ok())
    return JobError(command, shared);
  if (absl::Status assumed = CheckAssumed(job->max_assumed(), report); !assumed.ok())
    return JobError(command, assumed);
  return code;
}

int RunEmulateCommand(const CommandLine& line) {
  CLI::App app;
  EmulateFlags flags;
  AddJobFlags(&app, &flags.job);
  AddStragglerFlag(&app, &flags.job.stragglers);
  app.add_option("--world-size", flags.world_size)
      ->check(CLI::Range(1, graph::Layout::kMaxWorldSize));
  Reads(app.add_option("--graph", flags.graph));
  app.add_option("--real", flags.real);
  app.add_flag("--assume-absent", flags.assume_absent);
  AddRealGpuFlag(&app, &flags.job);
  AddHostTimeFlags(&app, &flags.job);
  AddHostTimeRecordingFlag(&app, &flags.job);
  app.add_flag("--collectives", flags.collectives);
  Writes(app.add_option("--log-schedule", flags.log_schedule));
  app.add_flag("--survive-failures", flags.job.survive_failures);
  if (const auto exit = ParseFlags("emulate", &app, line.flags); exit.has_value())
    return *exit;
  if (line.program.empty())
    return UsageError("emulate", "no program to run; put it after --");
  if (const absl::Status filled = FillFromLauncher(line.program, &flags); !filled.ok())
    return UsageError("emulate", std::string(filled.message()));
  if (!flags.graph.empty() && flags.assume_absent)
    return UsageError("emulate",
                      "--assume-absent: with --graph no rank is absent; leave out one");
  if (const char* other = AgainstSurvival(flags); other != nullptr)
    return UsageError("emulate", fmt::format("--survive-failures: not with {}", other));
  if (const absl::Status fit = CheckRealGpuFlags(flags.job); !fit.ok())
    return UsageError("emulate", std::string(fit.message()));
  if (const absl::Status fit = CheckHostTimeFlags(flags.job); !fit.ok())
    return UsageError("emulate", std::string(fit.message()));
  return Emulate("emulate", flags, line.program);
}

}  // namespace vrank::tools
