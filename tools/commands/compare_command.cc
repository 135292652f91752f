#include "tools/commands/compare_command.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include "base/regular_file.h"
#include "base/status_macros.h"
#include "emulator/host_time/host_times.h"
#include "graph/file/graph_file.h"
#include "tools/compare/comparison.h"
#include "tools/compare/comparison_limit.h"
#include "tools/compare/host_time_comparison.h"
#include "tools/machine/file_options.h"
#include "tools/machine/installation.h"
#include "tools/machine/output_file.h"
#include "tools/replay/graph_replay.h"
#include "tools/report/comparison_report.h"
#include "tools/report/host_time_report.h"
#include "tools/report/replay_report.h"

namespace vrank::tools {
namespace {

// The gate closed: neither a mistake on the command line nor a file that cannot be
// used.
constexpr int kExitLimitBroken = 3;
// A limit on what was measured: these measurements do not decide it.
constexpr int kExitCannotTell = 4;
// Results have a row per rank class: a few MB of a large job.
constexpr uint64_t kMostResultBytes = uint64_t{256} << 20;

struct CompareFlags {
  std::string base, updated;
  std::vector<std::string> limits;
  std::optional<std::string> iteration_range;
  std::string markdown, junit;
  bool any_job = false;
  bool json = false;
};

absl::StatusOr<std::string> PlayGraph(
    const std::string& path, const std::optional<std::string>& iteration_range) {
  ASSIGN_OR_RETURN(const graph::ExecutionGraph graph, graph::OpenGraph(path));
  GraphReplayOptions options;
  const auto pattern = IterationPattern(graph, iteration_range);
  if (!pattern.ok())
    return absl::Status(
        pattern.status().code(),
        fmt::format("{} (graph '{}')", std::string(pattern.status().message()), path));
  options.iteration_pattern = *pattern;
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  ASSIGN_OR_RETURN(const std::unique_ptr<GraphReplay> replay,
                   GraphReplay::Play(graph, installation, options));
  return ReplayJson(*replay, replay->Report(options.iteration_pattern), {});
}

absl::StatusOr<JobResult> Load(const std::string& path, const CompareFlags& flags) {
  if (path.ends_with(".vgraph")) {
    ASSIGN_OR_RETURN(const std::string json, PlayGraph(path, flags.iteration_range));
    return ReadResult(path, json);
  }
  if (flags.iteration_range.has_value())
    return absl::InvalidArgumentError(
        fmt::format("result '{}': --iteration-range is for graphs; give it to the "
                    "command that makes the result",
                    path));
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMostResultBytes);
  if (!text.ok())
    return absl::Status(
        text.status().code(),
        fmt::format("result '{}': {}", path, std::string(text.status().message())));
  return ReadResult(path, *text);
}

absl::StatusOr<std::vector<CheckedLimit>> Check(const std::vector<Limit>& limits,
                                                const Comparison& comparison) {
  std::vector<CheckedLimit> checked;
  for (const Limit& limit : limits) {
    ASSIGN_OR_RETURN(const Finding* broken, Broken(limit, comparison));
    checked.push_back({limit, broken});
  }
  return checked;
}

absl::Status WriteText(const OutputFile& output, const std::string& text) {
  if (output.path.empty())
    return absl::OkStatus();
  return WriteOutput(output, [&](std::ostream& file) {
    file << text;
    return absl::OkStatus();
  });
}

absl::StatusOr<int> Run(const CompareFlags& flags, const std::vector<Limit>& limits) {
  ASSIGN_OR_RETURN(JobResult base, Load(flags.base, flags));
  ASSIGN_OR_RETURN(JobResult updated, Load(flags.updated, flags));
  ASSIGN_OR_RETURN(const Comparison comparison,
                   Compare(std::move(base), std::move(updated), flags.any_job));
  ASSIGN_OR_RETURN(const std::vector<CheckedLimit> checked, Check(limits, comparison));
  RETURN_IF_ERROR(WriteText({"--markdown", flags.markdown},
                            ComparisonMarkdown(comparison, checked)));
  RETURN_IF_ERROR(
      WriteText({"--junit", flags.junit}, ComparisonJUnit(comparison, checked)));
  std::vector<std::string> written;
  for (const std::string& file : {flags.markdown, flags.junit})
    if (!file.empty())
      written.push_back(file);
  const int code = PrintResult("compare",
                               flags.json ? ComparisonJson(comparison, checked) + "\n"
                                          : ComparisonText(comparison, checked),
                               written);
  return Passed(checked) ? code : kExitLimitBroken;
}

bool AreRecordings(const std::string& files) {
  return files.ends_with(".vhost");
}

absl::StatusOr<std::vector<HostTimeRecordingFile>> LoadRecordings(
    const std::string& files) {
  std::vector<HostTimeRecordingFile> recordings;
  const std::vector<std::string> paths = absl::StrSplit(files, ',', absl::SkipEmpty());
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(emulator::HostTimes times, emulator::HostTimes::Load(path));
    recordings.push_back({path, std::move(times)});
  }
  return recordings;
}

absl::StatusOr<int> RunOnRecordings(const CompareFlags& flags,
                                    const std::vector<Limit>& limits) {
  if (!AreRecordings(flags.base) || !AreRecordings(flags.updated))
    return absl::InvalidArgumentError(fmt::format(
        "'{}' and '{}': recordings of host time are compared with recordings",
        flags.base, flags.updated));
  for (const auto& [flag, is_given] :
       {std::pair{"--markdown", !flags.markdown.empty()},
        std::pair{"--junit", !flags.junit.empty()},
        std::pair{"--iteration-range", flags.iteration_range.has_value()}})
    if (is_given)
      return absl::InvalidArgumentError(
          fmt::format("{} is not for recordings of host time; --json is", flag));
  ASSIGN_OR_RETURN(const auto base, LoadRecordings(flags.base));
  ASSIGN_OR_RETURN(const auto updated, LoadRecordings(flags.updated));
  ASSIGN_OR_RETURN(const HostTimeComparison comparison,
                   CompareHostTimes(base, updated, flags.any_job));
  std::vector<JudgedLimit> judged;
  int exit = 0;
  for (const Limit& limit : limits) {
    ASSIGN_OR_RETURN(const LimitOutcome outcome, Judge(limit, comparison));
    judged.push_back({limit, outcome});
    if (outcome == LimitOutcome::kBroken)
      exit = kExitLimitBroken;
    else if (outcome == LimitOutcome::kCannotTell && exit == 0)
      exit = kExitCannotTell;
  }
  const int code =
      PrintResult("compare",
                  flags.json ? HostTimeComparisonJson(comparison, judged) + "\n"
                             : HostTimeComparisonText(comparison, judged),
                  {});
  return code != 0 ? code : exit;
}

}  // namespace

int RunCompareCommand(const CommandLine& line) {
  CLI::App app;
  CompareFlags flags;
  Reads(app.add_option("base", flags.base)->required());
  Reads(app.add_option("new", flags.updated)->required());
  app.add_option("--fail-if", flags.limits)->take_all()->allow_extra_args(false);
  app.add_option("--iteration-range", flags.iteration_range);
  Writes(app.add_option("--markdown", flags.markdown));
  Writes(app.add_option("--junit", flags.junit));
  app.add_flag("--any-job", flags.any_job);
  app.add_flag("--json", flags.json);
  if (const auto exit = ParseFlags("compare", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("compare", "no program is run; leave out what follows --");
  std::vector<Limit> limits;
  for (const std::string& text : flags.limits) {
    absl::StatusOr<Limit> limit = ParseLimit(text);
    if (!limit.ok())
      return UsageError("compare", std::string(limit.status().message()));
    limits.push_back(*std::move(limit));
  }
  const bool of_host_time = AreRecordings(flags.base) || AreRecordings(flags.updated);
  const absl::StatusOr<int> code =
      of_host_time ? RunOnRecordings(flags, limits) : Run(flags, limits);
  return code.ok() ? *code : JobError("compare", code.status());
}

}  // namespace vrank::tools
