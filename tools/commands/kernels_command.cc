// Actions on .vkernels files, and the list of a graph's kernels; see
// docs/cli/kernels.md.

#include "tools/commands/kernels_command.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/status_macros.h"
#include "graph/analysis/kernel_use.h"
#include "graph/build/kernel_collection.h"
#include "graph/file/graph_file.h"
#include "graph/file/kernel_table.h"
#include "graph/models/gpu.h"
#include "graph/models/kernel_costs.h"
#include "graph/trace/trace_file.h"
#include "tools/machine/file_options.h"
#include "tools/machine/installation.h"
#include "tools/machine/output_file.h"
#include "tools/report/kernel_uses.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using graph::KernelTable;
using TableRow = std::pair<const KernelTable::Key, KernelTable::Row>;

struct KernelsFlags {
  std::string action;
  std::vector<std::string> files;
  std::string output;
  std::string skeleton;
  std::string gpu;  // empty: as the traces state it
  bool json = false;
};

// The name under which --gpu of other commands finds the same description.
absl::StatusOr<std::string> StatedGpu(const std::string& gpu) {
  if (gpu.empty())
    return std::string();
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  ASSIGN_OR_RETURN(const graph::Gpu found, graph::LoadGpu(gpu, installation.data_dir));
  return found.short_name;
}

// `gpu`: of the traces that state none; those that do are checked against it.
absl::StatusOr<graph::RankTrace> ReadTraceOf(const std::string& file,
                                             const std::string& gpu) {
  if (file.ends_with(".vtrace.raw"))
    return absl::InvalidArgumentError(fmt::format(
        "trace '{}': it is what `vrank trace` left of a slice that failed, and its "
        "kernel times are a model's; collect them from a trace of a real GPU",
        file));
  ASSIGN_OR_RETURN(graph::RankTrace trace, graph::ReadTrace(file));
  if (trace.session.gpu.empty())
    trace.session.gpu = gpu;
  if (trace.session.gpu.empty() && !trace.session.virtual_gpu)
    return absl::InvalidArgumentError(fmt::format(
        "trace '{}': it does not say which GPU it is of; state it with --gpu", file));
  return trace;
}

// Launches of a file that is named twice would count twice.
absl::Status CheckNamedOnce(const std::vector<std::string>& files) {
  std::error_code ignored;
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (std::filesystem::equivalent(files[i], files[j], ignored))
        return absl::InvalidArgumentError(fmt::format(
            "{} and {}: they are one file; name it once", files[j], files[i]));
  return absl::OkStatus();
}

absl::StatusOr<KernelTable> Collect(const KernelsFlags& flags) {
  ASSIGN_OR_RETURN(std::string gpu, StatedGpu(flags.gpu));
  std::vector<std::string> files = flags.files;
  std::sort(files.begin(), files.end());
  std::unique_ptr<KernelTable> table;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const graph::RankTrace trace, ReadTraceOf(file, gpu));
    if (table == nullptr)
      table = std::make_unique<KernelTable>(gpu.empty() ? trace.session.gpu : gpu);
    RETURN_IF_ERROR(graph::CollectKernels(trace, table.get()));
  }
  table->Finish();
  return std::move(*table);
}

absl::StatusOr<KernelTable> Merge(const std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(KernelTable table, KernelTable::Read(files.front()));
  std::map<std::string, std::string> by_content = {{table.Serialize(), files.front()}};
  for (size_t i = 1; i < files.size(); ++i) {
    ASSIGN_OR_RETURN(const KernelTable other, KernelTable::Read(files[i]));
    const auto [same, is_new] = by_content.emplace(other.Serialize(), files[i]);
    if (!is_new)
      return absl::InvalidArgumentError(
          fmt::format("kernel tables '{}' and '{}' hold the same launches, which would "
                      "count twice; name one of them",
                      same->second, files[i]));
    if (const absl::Status status = table.Merge(other); !status.ok())
      return absl::Status(
          status.code(),
          fmt::format("kernel tables '{}' and '{}' are of different GPUs: '{}' and "
                      "'{}'; merge tables of one GPU",
                      files.front(), files[i], table.gpu(), other.gpu()));
  }
  return table;
}

// What took most of the time first.
std::vector<const TableRow*> ByTotalTime(const KernelTable& table) {
  std::vector<const TableRow*> rows;
  for (const TableRow& row : table.rows())
    rows.push_back(&row);
  auto total = [](const TableRow* row) {
    return row->second.mean_ns * static_cast<double>(row->second.count);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto* a, const auto* b) { return total(a) > total(b); });
  return rows;
}

std::string TableJson(const KernelTable& table, const std::string& file) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const TableRow* row : ByTotalTime(table))
    rows.push_back(Json{{"name", graph::Demangle(row->first.name)},
                        {"mangled", row->first.name},
                        {"grid", row->first.grid},
                        {"block", row->first.block},
                        {"shared_bytes", row->first.shared_bytes},
                        {"count", row->second.count},
                        {"median_ns", row->second.median_ns},
                        {"min_ns", row->second.min_ns},
                        {"mean_ns", row->second.mean_ns}});
  return Json{{"schema", "vrank.kernels/1"},
              {"file", file},
              {"gpu", table.gpu()},
              {"sources", table.sources()},
              {"kernels", rows}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string Geometry(const std::array<uint32_t, 3>& size) {
  return fmt::format("{}x{}x{}", size[0], size[1], size[2]);
}

std::string TableText(const KernelTable& table, const std::string& file) {
  uint64_t launches = 0;
  for (const TableRow& row : table.rows())
    launches += row.second.count;
  std::string text = fmt::format(
      "{}: GPU {}, {} kernels of different name or launch, {} launches\n", file,
      table.gpu(), FormatCount(table.rows().size()), FormatCount(launches));
  Table columns;
  if (!table.rows().empty())
    columns.Add({"kernel", "grid", "block", "shared", "count", "median", "least"});
  for (const TableRow* row : ByTotalTime(table))
    columns.Add({graph::Demangle(row->first.name), Geometry(row->first.grid),
                 Geometry(row->first.block), fmt::format("{}", row->first.shared_bytes),
                 FormatCount(row->second.count), FormatTime(row->second.median_ns),
                 FormatTime(row->second.min_ns)});
  return text + columns.ToString(0);
}

absl::StatusOr<int> List(const KernelsFlags& flags) {
  const std::string& file = flags.files.front();
  const OutputFile output = {"--skeleton", flags.skeleton};
  if (!flags.skeleton.empty())
    RETURN_IF_ERROR(CheckNewOutput(output));
  ASSIGN_OR_RETURN(const graph::ExecutionGraph graph, graph::OpenGraph(file));
  const std::vector<graph::KernelUse> uses = graph::KernelsByTime(graph);
  if (!flags.skeleton.empty()) {
    RETURN_IF_ERROR(WriteOutput(output, [&](std::ostream& skeleton) {
      skeleton << CostFileSkeleton(uses);
      return absl::OkStatus();
    }));
  }
  std::vector<std::string> written;
  if (!flags.skeleton.empty())
    written.push_back(flags.skeleton);
  return PrintResult("kernels",
                     flags.json ? KernelUsesJson(graph, uses, file) + "\n"
                                : KernelUsesText(graph, uses, file),
                     written);
}

// Empty, or what is wrong with the command line.
std::string Misuse(const KernelsFlags& flags) {
  if (!flags.skeleton.empty() && flags.action != "list")
    return "--skeleton belongs to list";
  if (flags.action == "list") {
    if (flags.files.size() != 1)
      return fmt::format("list takes one graph, not {}", flags.files.size());
    if (!flags.output.empty() || !flags.gpu.empty())
      return "list takes neither --output nor --gpu";
    return "";
  }
  if (flags.action == "show") {
    if (flags.files.size() != 1)
      return fmt::format("show takes one table, not {}", flags.files.size());
    return flags.output.empty() ? "" : "show writes no file; leave out --output";
  }
  if (flags.output.empty())
    return fmt::format("{} needs --output TABLE", flags.action);
  if (flags.action == "merge" && flags.files.size() < 2)
    return "merge takes two or more tables";
  if (flags.action == "merge" && !flags.gpu.empty())
    return "tables state their GPU; leave out --gpu";
  return "";
}

absl::StatusOr<KernelTable> Run(const KernelsFlags& flags) {
  if (flags.action == "show")
    return KernelTable::Read(flags.files.front());
  RETURN_IF_ERROR(CheckReplacedOutput({"-o", flags.output}));
  ASSIGN_OR_RETURN(KernelTable table,
                   flags.action == "collect" ? Collect(flags) : Merge(flags.files));
  RETURN_IF_ERROR(table.Write(flags.output));
  return table;
}

}  // namespace

int RunKernelsCommand(const CommandLine& line) {
  CLI::App app;
  KernelsFlags flags;
  app.add_option("action", flags.action)
      ->required()
      ->check(CLI::IsMember({"collect", "list", "merge", "show"}));
  Reads(app.add_option("files", flags.files)->required());
  Writes(app.add_option("-o,--output", flags.output));
  Writes(app.add_option("--skeleton", flags.skeleton));
  app.add_option("--gpu", flags.gpu);
  app.add_flag("--json", flags.json);
  if (const auto exit = ParseFlags("kernels", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("kernels", "no program is run; leave out what follows --");
  if (const std::string misuse = Misuse(flags); !misuse.empty())
    return UsageError("kernels", misuse);
  if (flags.action == "list") {
    const absl::StatusOr<int> code = List(flags);
    return code.ok() ? *code : JobError("kernels", code.status());
  }
  if (const absl::Status once = CheckNamedOnce(flags.files); !once.ok())
    return UsageError("kernels", std::string(once.message()));
  const absl::StatusOr<KernelTable> table = Run(flags);
  if (!table.ok())
    return JobError("kernels", table.status());
  const bool shown = flags.output.empty();
  const std::string& file = shown ? flags.files.front() : flags.output;
  const std::string text =
      flags.json ? TableJson(*table, file) + "\n" : TableText(*table, file);
  return shown ? PrintResult("kernels", text)
               : PrintSummary("kernels", text, flags.json, file);
}

}  // namespace vrank::tools
