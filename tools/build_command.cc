#include "tools/build_command.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "graph/file/graph_file.h"
#include "tools/graph_losses.h"
#include "tools/graph_replay.h"
#include "tools/output_file.h"
#include "tools/output_style.h"
#include "tools/progress_line.h"
#include "tools/shell_word.h"
#include "tools/slice_contents.h"
#include "tools/slice_folder.h"

namespace vrank::tools {
namespace {

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

std::string BuildJson(const graph::ExecutionGraph& graph, const std::string& file,
                      uint64_t bytes) {
  using Json = nlohmann::ordered_json;
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
              {"losses", LossesJson(graph.losses)}}
      .dump(2);
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
  text += LossLines(graph);
  return text + fmt::format("\nvrank replay {}\n", ShellWord(file));
}

int ListCommand(const BuildFlags& flags) {
  const auto files = ListSlices(flags.slices, /*with_raw=*/true);
  if (!files.ok())
    return JobError("build", files.status());
  const auto contents = ReadContents(*files);
  if (!contents.ok())
    return JobError("build", contents.status());
  fmt::print("{}{}", flags.json ? ContentsJson(*contents) : ContentsText(*contents),
             flags.json ? "\n" : "");
  return kExitFine;
}

}  // namespace

int RunBuildCommand(const CommandLine& line) {
  CLI::App app;
  BuildFlags flags;
  app.add_option("slices", flags.slices)->required();
  app.add_option("-o,--output", flags.output);
  app.add_option("--layout", flags.build.layout);
  app.add_option("--group", flags.build.group_hints);
  app.add_option("--kernel-times", flags.kernel_times)
      ->take_all()
      ->allow_extra_args(false);
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
  const auto files = ListSlices(flags.slices);
  if (!files.ok())
    return JobError("build", files.status());
  if (const absl::Status free = CheckReplacedOutput({"-o", flags.output, *files});
      !free.ok())
    return JobError("build", free);
  ProgressLine progress(flags.quiet);
  const auto graph =
      BuildFromSlices(*files, flags.build, flags.kernel_times,
                      [&](const std::string& text) { progress.Show(text); });
  progress.Clear();
  if (!graph.ok())
    return JobError("build", graph.status());
  if (const absl::Status written = graph::WriteGraph(*graph, flags.output);
      !written.ok())
    return JobError("build", written);
  std::error_code ignored;
  const uint64_t bytes = std::filesystem::file_size(flags.output, ignored);
  fmt::print("{}{}",
             flags.json ? BuildJson(*graph, flags.output, bytes)
                        : BuildText(*graph, flags.output, bytes),
             flags.json ? "\n" : "");
  return kExitFine;
}

}  // namespace vrank::tools
