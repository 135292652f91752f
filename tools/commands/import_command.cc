#include "tools/commands/import_command.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "graph/file/graph_file.h"
#include "graph/import/kineto_import.h"
#include "graph/import/schedule_import.h"
#include "tools/machine/file_options.h"
#include "tools/machine/output_file.h"
#include "tools/report/graph_text.h"
#include "tools/report/losses_json.h"
#include "tools/terminal/output_style.h"
#include "tools/terminal/progress_line.h"
#include "tools/terminal/shell_word.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kHostRowsInText = 6;

struct ImportFlags {
  std::string format;
  graph::KinetoImportOptions import;
  std::string output;
  bool json = false;
  bool quiet = false;
};

struct Written {
  std::string file;
  uint64_t bytes = 0;
};

Json MemoryJson(const graph::RecordedMemory& memory) {
  return memory.reserved_bytes == 0 ? Json(nullptr)
                                    : Json{{"allocated_bytes", memory.allocated_bytes},
                                           {"reserved_bytes", memory.reserved_bytes}};
}

// A step for each iteration; schedules hold no memory.
graph::RankMemory MemoryOf(const graph::ImportedRun& import,
                           const graph::RecordedRank& rank) {
  const auto found = import.memory.find(rank.rank);
  graph::RankMemory memory =
      found == import.memory.end() ? graph::RankMemory() : found->second;
  memory.steps.resize(rank.iterations.size());
  return memory;
}

uint64_t CountOps(const graph::ExecutionGraph& graph) {
  uint64_t ops = 0;
  for (const auto& program : graph.programs)
    ops += program->size();
  return ops;
}

std::vector<int32_t> RecordedRanks(const graph::ExecutionGraph& graph) {
  std::vector<int32_t> ranks;
  for (const graph::RecordedRank& rank : graph.recorded_ranks)
    ranks.push_back(rank.rank);
  return ranks;
}

int64_t HostTime(const graph::RecordedRank& rank) {
  return std::accumulate(rank.host.begin(), rank.host.end(), int64_t{0},
                         [](int64_t sum, const graph::RecordedRank::HostTime& row) {
                           return sum + row.time_ns;
                         });
}

std::string ImportJson(const graph::ImportedRun& import, const Written& written) {
  const graph::ExecutionGraph& graph = import.graph;
  Json ranks = Json::array();
  for (const graph::RecordedRank& rank : graph.recorded_ranks) {
    Json host = Json::array();
    for (const graph::RecordedRank::HostTime& row : rank.host)
      host.push_back(Json{{"name", row.name}, {"time_ns", row.time_ns}});
    Json iterations = Json::array();
    const graph::RankMemory memory = MemoryOf(import, rank);
    for (size_t i = 0; i < rank.iterations.size(); ++i) {
      const graph::RecordedRank::Iteration& one = rank.iterations[i];
      iterations.push_back(Json{{"name", one.name},
                                {"time_ns", one.end_ns - one.begin_ns},
                                {"memory", MemoryJson(memory.steps[i])}});
    }
    ranks.push_back(Json{{"rank", rank.rank},
                         {"file", rank.file},
                         {"iterations", iterations},
                         {"memory", MemoryJson(memory.whole)},
                         {"host_ns", HostTime(rank)},
                         {"host", host},
                         {"unexplained_host_ns", rank.unexplained_host_ns},
                         {"unexplained_device_ns", rank.unexplained_device_ns}});
    if (const auto clock = import.clocks.find(rank.rank); clock != import.clocks.end())
      ranks.back()["clock"] = Json{{"ahead_ns", clock->second.at_least_ns},
                                   {"against", clock->second.against},
                                   {"collectives", clock->second.collectives}};
  }
  return Json{{"schema", "vrank.import/1"},
              {"file", written.file},
              {"bytes", written.bytes},
              {"world_size", graph.world_size},
              {"recorded_ranks", RecordedRanks(graph)},
              {"gpu", graph.gpu},
              {"events", import.events},
              {"nodes", CountOps(graph)},
              {"communicators", graph.communicators.size()},
              {"ranks", ranks},
              {"losses", LossesJson(graph.losses)}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

// Where the host's time goes, over all ranks.
std::string HostTable(const graph::ExecutionGraph& graph) {
  std::map<std::string, int64_t> by_name;
  int64_t sum = 0;
  for (const graph::RecordedRank& rank : graph.recorded_ranks)
    for (const graph::RecordedRank::HostTime& row : rank.host) {
      by_name[row.name] += row.time_ns;
      sum += row.time_ns;
    }
  std::vector<std::pair<std::string, int64_t>> rows(by_name.begin(), by_name.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table;
  table.Add({"host time", "all ranks", "share"});
  for (size_t i = 0; i < std::min(kHostRowsInText, rows.size()); ++i)
    table.Add({rows[i].first, FormatTime(rows[i].second),
               FormatPercent(sum == 0 ? 0
                                      : static_cast<double>(rows[i].second) /
                                            static_cast<double>(sum))});
  return table.ToString(0);
}

std::string RankTable(const graph::ExecutionGraph& graph) {
  Table table;
  table.Add({"rank", "iterations", "host", "unexplained host", "unexplained device"});
  for (const graph::RecordedRank& rank : graph.recorded_ranks) {
    std::string iterations;
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, rank.iterations.size()); ++i)
      iterations += (i == 0 ? "" : ", ") +
                    FormatTime(rank.iterations[i].end_ns - rank.iterations[i].begin_ns);
    if (rank.iterations.size() > kShown)
      iterations += fmt::format(" and {} more", rank.iterations.size() - kShown);
    table.Add({std::to_string(rank.rank), iterations, FormatTime(HostTime(rank)),
               FormatTime(rank.unexplained_host_ns),
               FormatTime(rank.unexplained_device_ns)});
  }
  return table.ToString(0);
}

// Highest totals of the allocator, by step; empty where none was recorded.
std::string MemoryTable(const graph::ImportedRun& import) {
  constexpr size_t kShown = 16;
  Table table;
  table.Add({"peak memory", "step", "allocated", "reserved"});
  size_t steps = 0;
  for (const graph::RecordedRank& rank : import.graph.recorded_ranks) {
    const graph::RankMemory memory = MemoryOf(import, rank);
    for (size_t i = 0; i < memory.steps.size(); ++i)
      if (memory.steps[i].reserved_bytes != 0 && steps++ < kShown)
        table.Add({fmt::format("rank {}", rank.rank), rank.iterations[i].name,
                   FormatBytes(static_cast<double>(memory.steps[i].allocated_bytes)),
                   FormatBytes(static_cast<double>(memory.steps[i].reserved_bytes))});
  }
  if (steps > kShown)
    table.Add({fmt::format("  and {} more (--json)", steps - kShown)});
  return steps == 0 ? "" : table.ToString(0) + "\n";
}

// Which clocks differ, a rank per line.
std::string ClockLines(const graph::ImportedRun& import) {
  constexpr size_t kShown = 16;
  std::string text;
  size_t shown = 0;
  for (const auto& [rank, clock] : import.clocks)
    if (shown++ < kShown)
      text += fmt::format("{:<11} {} ({} of its collectives cannot be otherwise)\n",
                          "clock", graph::DescribeClock(rank, clock),
                          FormatCount(clock.collectives));
  if (shown > kShown)
    text += fmt::format("{:<11} and of {} more ranks\n", "clock", shown - kShown);
  return text.empty() ? text : text + "\n";
}

std::string ImportText(const graph::ImportedRun& import, const Written& written) {
  const graph::ExecutionGraph& graph = import.graph;
  const std::vector<int32_t> ranks = RecordedRanks(graph);
  return fmt::format(
             "{}: {} of {} ranks recorded ({}) on {}\n{} events ({}) became {} "
             "nodes, {}; {} communicators\n\n",
             written.file, ranks.size(),
             FormatCount(static_cast<uint64_t>(graph.world_size)), FormatRanks(ranks),
             graph.gpu, FormatCount(import.events),
             FormatBytes(static_cast<double>(import.bytes)),
             FormatCount(CountOps(graph)),
             FormatBytes(static_cast<double>(written.bytes)),
             FormatCount(graph.communicators.size())) +
         RankTable(graph) + "\n" + HostTable(graph) + "\n" + MemoryTable(import) +
         ClockLines(import) + LossLines(graph) +
         fmt::format("\nvrank replay {} --against-recording\n",
                     ShellWord(written.file));
}

}  // namespace

int RunImportCommand(const CommandLine& line) {
  CLI::App app;
  ImportFlags flags;
  app.add_option("format", flags.format)->required();
  Reads(app.add_option("recordings", flags.import.files)->required());
  Writes(app.add_option("-o,--output", flags.output)->required());
  Reads(app.add_option("--execution-trace", flags.import.execution_traces));
  app.add_flag("--json", flags.json);
  app.add_flag("--quiet", flags.quiet);
  if (const auto exit = ParseFlags("import", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("import", "no program is run; leave out what follows --");
  if (flags.format != "kineto" && flags.format != "schedule")
    return UsageError("import", fmt::format("format '{}' is not known; there are: "
                                            "kineto, schedule",
                                            flags.format));
  if (flags.format == "schedule" &&
      (flags.import.files.size() != 1 || !flags.import.execution_traces.empty()))
    return UsageError(
        "import", "a schedule is one file with all ranks, without execution traces");
  if (const absl::Status free = CheckReplacedOutput({"-o", flags.output}); !free.ok())
    return JobError("import", free);
  ProgressLine progress(flags.quiet);
  flags.import.progress = [&](const std::string& text) { progress.Show(text); };
  const auto import = flags.format == "kineto"
                          ? graph::ImportKineto(flags.import)
                          : graph::ReadSchedule(flags.import.files[0]);
  progress.Clear();
  if (!import.ok())
    return JobError("import", import.status());
  if (const absl::Status written = graph::WriteGraph(import->graph, flags.output);
      !written.ok())
    return JobError("import", written);
  std::error_code ignored;
  const Written written{flags.output,
                        std::filesystem::file_size(flags.output, ignored)};
  return PrintSummary(
      "import",
      flags.json ? ImportJson(*import, written) + "\n" : ImportText(*import, written),
      flags.json, flags.output);
}

}  // namespace vrank::tools
