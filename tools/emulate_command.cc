#include "tools/emulate_command.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/rank_list.h"
#include "base/status_macros.h"
#include "emulator/session/cast.h"
#include "tools/job.h"
#include "tools/job_report.h"
#include "tools/rank_output.h"
#include "tools/report_json.h"
#include "tools/report_text.h"

namespace vrank::tools {
namespace {

absl::StatusOr<RunOptions> CastRanks(const Job& job, const EmulateFlags& flags) {
  RunOptions options;
  ASSIGN_OR_RETURN(const RankList list, ParseRankList(flags.real, job.world_size()));
  if (list.each)
    return absl::InvalidArgumentError(
        "--real each belongs to `vrank validate`; name ranks, as in --real 0,512");
  options.real_ranks = list.ranks;
  ASSIGN_OR_RETURN(
      options.virtual_ranks,
      emulator::CastByClass(job.layout(), options.real_ranks, flags.assume_absent));
  options.collectives = flags.collectives;
  options.log_dir = flags.job.log_dir;
  return options;
}

}  // namespace

int Emulate(const std::string& command, const EmulateFlags& flags,
            const std::vector<std::string>& program) {
  auto job = Job::Make(flags.job, flags.world_size, program);
  if (!job.ok())
    return UsageError(command, std::string(job.status().message()));
  auto options = CastRanks(*job, flags);
  if (!options.ok())
    return UsageError(command, std::string(options.status().message()));
  RankOutput output(flags.job.quiet, "emulate");
  options->on_line = [&output](int32_t rank, bool is_stderr, std::string_view line) {
    output.Line(rank, is_stderr, line);
  };
  options->on_progress = [&output](const emulator::Progress& progress) {
    output.Update(progress);
  };
  auto run = Run::Make(*job, std::move(*options));
  if (!run.ok())
    return JobError(command, run.status());
  const absl::Status status = (*run)->Execute();
  output.Clear();
  if (!status.ok()) {
    output.ShowTail();
    return JobError(command, status);
  }
  const JobReport report = MakeReport(*job, **run);
  fmt::print(
      "{}{}",
      flags.job.json ? ReportJson(report, flags.collectives) : ReportText(report),
      flags.job.json ? "\n" : "");
  if ((*run)->session().addresses_randomized())
    fmt::print(stderr,
               "vrank: address randomisation could not be switched off; programs that "
               "order things by host address may differ between two runs\n");
  if (absl::Status assumed = CheckAssumed(*job, report); !assumed.ok())
    return JobError(command, assumed);
  return kExitFine;
}

int RunEmulateCommand(const CommandLine& line) {
  CLI::App app;
  EmulateFlags flags;
  AddJobFlags(&app, &flags.job);
  app.add_option("--world-size", flags.world_size)
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--real", flags.real)->required();
  app.add_flag("--assume-absent", flags.assume_absent);
  app.add_flag("--collectives", flags.collectives);
  if (const auto exit = ParseFlags("emulate", &app, line.flags); exit.has_value())
    return *exit;
  if (line.program.empty())
    return UsageError("emulate", "no program to run; put it after --");
  return Emulate("emulate", flags, line.program);
}

}  // namespace vrank::tools
