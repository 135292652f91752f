#include "tools/commands/build_command.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/interruption.h"
#include "base/rank_list.h"
#include "base/status_macros.h"
#include "graph/build/class_differences.h"
#include "graph/file/graph_file.h"
#include "graph/models/kernel_costs.h"
#include "tools/machine/file_options.h"
#include "tools/machine/output_file.h"
#include "tools/replay/graph_replay.h"
#include "tools/report/graph_text.h"
#include "tools/report/losses_json.h"
#include "tools/slices/slice_contents.h"
#include "tools/slices/slice_folder.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/progress_line.h"
#include "tools/terminal/say.h"
#include "tools/terminal/shell_word.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

struct BuildFlags {
  std::vector<std::string> slices;
  std::string output;
  graph::GraphBuildOptions build;
  std::vector<std::string> kernel_times;
  bool list = false;
  bool json = false;
  bool quiet = false;
};

uint64_t CountOps(const graph::ExecutionGraph& graph) {
  uint64_t ops = 0;
  for (const auto& program : graph.programs)
    ops += program->size();
  return ops;
}

Json DifferencesJson(const graph::ExecutionGraph& graph) {
  Json rows = Json::array();
  const auto side = [](const graph::ClassDifference::Side& of) {
    return Json{{"op", of.op}, {"what", of.what}, {"work_ns", of.work_ns}};
  };
  for (const graph::ClassDifference& one : graph::DifferencesWithinClasses(graph))
    rows.push_back(Json{{"class", one.class_name},
                        {"ranks", FormatRanks(one.ranks)},
                        {"reference", one.reference},
                        {"of_ranks", side(one.of_ranks)},
                        {"of_reference", side(one.of_reference)}});
  return rows;
}

std::string BuildJson(const graph::ExecutionGraph& graph, const std::string& file,
                      uint64_t bytes) {
  Json classes = Json::array();
  for (const auto& one : graph.classes)
    classes.push_back(Json{{"name", one.name}, {"ranks", FormatRanks(one.ranks)}});
  return Json{{"schema", "vrank.build/1"},
              {"file", file},
              {"bytes", bytes},
              {"world_size", graph.world_size},
              {"layout", graph.layout},
              {"layout_inferred", graph.layout_inferred},
              {"traced_ranks", TracedRanks(graph)},
              {"nodes", CountOps(graph)},
              {"communicators", graph.communicators.size()},
              {"classes", classes},
              {"differences", DifferencesJson(graph)},
              {"losses", LossesJson(graph.losses)}}
      .dump(2);
}

// "KERNEL of 5 ns on lane 3" with the kernel's name as it was written.
std::string WithSourceName(const std::string& action) {
  const size_t end = action.find(' ');
  return action.starts_with("_Z") && end != std::string::npos
             ? graph::Demangle(action.substr(0, end)) + action.substr(end)
             : action;
}

// At most kDifferencesShown sets of ranks.
std::string DifferenceLines(const graph::ExecutionGraph& graph) {
  constexpr size_t kDifferencesShown = 8;
  const std::vector<graph::ClassDifference> all =
      graph::DifferencesWithinClasses(graph);
  std::string text;
  for (size_t i = 0; i < std::min(all.size(), kDifferencesShown); ++i) {
    const graph::ClassDifference& one = all[i];
    const bool several = one.ranks.size() > 1;
    text += fmt::format(
        "differ      rank{} {} {} not what rank {} of the same class ({}) does\n"
        "  from op {} on: {}\n  on rank {} op {}: {}\n"
        "  GPU work in all: {}, on rank {} {}\n",
        several ? "s" : "", FormatRanks(one.ranks), several ? "do" : "does",
        one.reference, one.class_name, one.of_ranks.op,
        WithSourceName(one.of_ranks.what), one.reference, one.of_reference.op,
        WithSourceName(one.of_reference.what), FormatTime(one.of_ranks.work_ns),
        one.reference, FormatTime(one.of_reference.work_ns));
  }
  if (all.size() > kDifferencesShown)
    text +=
        fmt::format("  and {} more sets of ranks\n", all.size() - kDifferencesShown);
  return text;
}

std::string BuildText(const graph::ExecutionGraph& graph, const std::string& file,
                      uint64_t bytes) {
  const std::vector<int32_t> traced = TracedRanks(graph);
  std::string text = fmt::format(
      "{}: {} ranks in {} class{}, {} of them traced ({})\nlayout {}{}, {} "
      "communicators verified against the slices\n{} nodes, {}\n",
      file, FormatCount(static_cast<uint64_t>(graph.world_size)), graph.classes.size(),
      graph.classes.size() == 1 ? "" : "es", traced.size(), FormatRanks(traced),
      graph.layout, graph.layout_inferred ? " (inferred)" : "",
      FormatCount(graph.communicators.size()), FormatCount(CountOps(graph)),
      FormatBytes(static_cast<double>(bytes)));
  text += DifferenceLines(graph) + LossLines(graph);
  return text + fmt::format("\nvrank replay {}\n", ShellWord(file));
}

// Slices that are named twice are a mistake of the command line.
int SlicesError(const absl::Status& status) {
  return absl::IsInvalidArgument(status)
             ? UsageError("build", std::string(status.message()))
             : JobError("build", status);
}

int ListCommand(const BuildFlags& flags) {
  const auto files = ListSlices(flags.slices, /*with_raw=*/true);
  if (!files.ok())
    return SlicesError(files.status());
  const std::vector<SliceContents> contents = ReadContents(*files);
  const int code = PrintResult(
      "build", flags.json ? ContentsJson(contents) + "\n" : ContentsText(contents));
  return std::all_of(contents.begin(), contents.end(),
                     [](const SliceContents& one) { return one.error.empty(); })
             ? code
             : kExitFailed;
}

// ParseFlags knows the folders of slices, not what is in them.
absl::Status CheckGraphFile(const std::string& output,
                            const std::vector<std::string>& slices) {
  NamedFiles files;
  files.written = {{"-o", output}};
  for (const std::string& slice : slices)
    files.read.push_back({"slices", slice});
  RETURN_IF_ERROR(CheckNamedFiles(files));
  return CheckReplacedOutput({"-o", output});
}

}  // namespace

int RunBuildCommand(const CommandLine& line) {
  CLI::App app;
  BuildFlags flags;
  app.add_option("slices", flags.slices)->required();
  Writes(app.add_option("-o,--output", flags.output));
  app.add_option("--layout", flags.build.layout);
  app.add_option("--group", flags.build.group_hints);
  Reads(app.add_option("--kernel-times", flags.kernel_times)
            ->take_all()
            ->allow_extra_args(false));
  app.add_flag("--list", flags.list);
  app.add_flag("--json", flags.json);
  app.add_flag("--quiet", flags.quiet);
  if (const auto exit = ParseFlags("build", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("build", "no program is run; leave out what follows --");
  if (flags.list && !flags.output.empty())
    return UsageError("build", "--list makes no graph; leave out -o");
  if (flags.list)
    return ListCommand(flags);
  if (flags.output.empty())
    return UsageError("build", "-o FILE is needed: where the graph goes");
  std::vector<std::string> failed;
  const auto files = ListSlices(flags.slices, /*with_raw=*/false, &failed);
  if (!files.ok())
    return SlicesError(files.status());
  if (const absl::Status free = CheckGraphFile(flags.output, *files); !free.ok())
    return JobError("build", free);
  for (const std::string& table : flags.kernel_times)
    if (!std::filesystem::exists(table))
      return UsageError(
          "build", fmt::format("kernel table '{}': No such file or directory", table));
  SetWhatStays(fmt::format("no graph was made, and {} is as it was", flags.output));
  ProgressLine progress(flags.quiet);
  const auto graph =
      BuildFromSlices(*files, flags.build, flags.kernel_times,
                      [&](const std::string& text) { progress.Show(text); });
  progress.Clear();
  if (!failed.empty() && (!flags.quiet || !graph.ok()))
    Say("vrank build: left out, since their slices failed: {} (`vrank build --list` "
        "shows what they hold)\n",
        fmt::join(failed, ", "));
  if (!graph.ok())
    return JobError("build", graph.status());
  if (const absl::Status written = graph::WriteGraph(*graph, flags.output);
      !written.ok())
    return JobError("build", written);
  SetWhatStays(fmt::format("{} is complete", flags.output));
  std::error_code ignored;
  const uint64_t bytes = std::filesystem::file_size(flags.output, ignored);
  return PrintSummary("build",
                      flags.json ? BuildJson(*graph, flags.output, bytes) + "\n"
                                 : BuildText(*graph, flags.output, bytes),
                      flags.json, flags.output);
}

}  // namespace vrank::tools
