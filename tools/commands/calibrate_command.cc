#include "tools/commands/calibrate_command.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/regular_file.h"
#include "base/status_macros.h"
#include "graph/calibration/calibration.h"
#include "graph/models/cluster.h"
#include "graph/models/description_file.h"
#include "tools/machine/file_options.h"
#include "tools/machine/installation.h"
#include "tools/machine/output_file.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostLogBytes = uint64_t{64} << 20;

struct CalibrateFlags {
  std::vector<std::string> logs;  // FILE, or OPERATION=FILE
  std::string cluster = "hgx-h100-ib400";
  std::string output;
  bool json = false;
};

absl::StatusOr<std::string> ReadText(const std::string& kind, const std::string& path) {
  absl::StatusOr<std::string> text = ReadRegularFile(path, kMostLogBytes);
  if (!text.ok())
    return absl::Status(
        text.status().code(),
        fmt::format("{} '{}': {}", kind, path, std::string(text.status().message())));
  return text;
}

absl::StatusOr<std::vector<graph::MeasuredTable>> ReadLogs(
    const std::vector<std::string>& logs) {
  const std::vector<std::string>& operations = graph::NcclTestsOperations();
  std::vector<graph::MeasuredTable> tables;
  for (const std::string& log : logs) {
    std::string operation, path = log;
    if (const size_t equal = log.find('=');
        equal != std::string::npos &&
        std::find(operations.begin(), operations.end(), log.substr(0, equal)) !=
            operations.end()) {
      operation = log.substr(0, equal);
      path = log.substr(equal + 1);
    }
    ASSIGN_OR_RETURN(const std::string text, ReadText("log", path));
    ASSIGN_OR_RETURN(std::vector<graph::MeasuredTable> read,
                     graph::ReadNcclTestsLog(path, text, operation));
    std::move(read.begin(), read.end(), std::back_inserter(tables));
  }
  return tables;
}

std::string PercentOf(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string CalibrationText(const graph::Calibration& calibration,
                            const std::string& base, const std::string& output) {
  Table table;
  table.Add({"operation", "members", "nodes", "rows", "base, median", "p90",
             "left out, median", "p90"});
  for (const graph::FittedCurve& one : calibration.curves)
    table.Add({one.operation, FormatCount(one.curve.members()),
               FormatCount(one.curve.nodes()), FormatCount(one.rows),
               PercentOf(one.before.median), PercentOf(one.before.p90),
               PercentOf(one.left_out.median), PercentOf(one.left_out.p90)});
  std::string text = fmt::format(
      "Sizes of the errors of '{}', and of each measured size when it is left "
      "out.\n\n{}\n"
      "not determined by these logs\n",
      base, table.ToString(0));
  for (const std::string& row : calibration.undetermined)
    text += fmt::format("  {}\n", row);
  return text + fmt::format("\nUse it with --cluster {}\n", output);
}

Json SpreadJson(const graph::ErrorSpread& spread) {
  return {{"median", spread.median},
          {"p90", spread.p90},
          {"median_sign", spread.median_sign}};
}

std::string CalibrationJson(const graph::Calibration& calibration,
                            const std::string& base, const std::string& output) {
  Json curves = Json::array();
  for (const graph::FittedCurve& one : calibration.curves)
    curves.push_back(Json{{"operation", one.operation},
                          {"members", one.curve.members()},
                          {"nodes", one.curve.nodes()},
                          {"files", one.files},
                          {"rows", one.rows},
                          {"base", SpreadJson(one.before)},
                          {"left_out", SpreadJson(one.left_out)}});
  return Json{{"schema", "vrank.calibrate/1"},
              {"base", base},
              {"cluster", output},
              {"curves", curves},
              {"undetermined", calibration.undetermined}}
      .dump(2, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<graph::Calibration> Run(const CalibrateFlags& flags) {
  RETURN_IF_ERROR(CheckReplacedOutput({"-o", flags.output}));
  ASSIGN_OR_RETURN(const Installation installation, FindInstallation());
  ASSIGN_OR_RETURN(const graph::ClusterDescription base,
                   graph::LoadCluster(flags.cluster, installation.data_dir));
  if (!base.measured().empty())
    return absl::InvalidArgumentError(
        fmt::format("cluster '{}' is calibrated already; start from the description "
                    "that it was made of",
                    flags.cluster));
  ASSIGN_OR_RETURN(const std::vector<graph::MeasuredTable> tables,
                   ReadLogs(flags.logs));
  ASSIGN_OR_RETURN(graph::Calibration calibration, graph::Calibrate(base, tables));
  const std::string base_path =
      graph::MeansFile(flags.cluster)
          ? flags.cluster
          : graph::DescriptionPath(installation.data_dir, "clusters", flags.cluster);
  ASSIGN_OR_RETURN(const std::string base_text, ReadText("cluster", base_path));
  const std::string text = graph::CalibratedText(
      base_text, std::filesystem::path(flags.output).stem().string(), calibration);
  RETURN_IF_ERROR(WriteOutput({"-o", flags.output}, [&](std::ostream& file) {
    file << text;
    return absl::OkStatus();
  }));
  return calibration;
}

}  // namespace

int RunCalibrateCommand(const CommandLine& line) {
  CLI::App app;
  CalibrateFlags flags;
  Reads(app.add_option("logs", flags.logs)->required());
  app.add_option("--cluster", flags.cluster);
  Writes(app.add_option("-o,--output", flags.output)->required());
  app.add_flag("--json", flags.json);
  if (const auto exit = ParseFlags("calibrate", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("calibrate", "no program is run; leave out what follows --");
  if (!graph::MeansFile(flags.output))
    return UsageError(
        "calibrate",
        fmt::format("-o {}: a cluster description is named .textproto", flags.output));
  const absl::StatusOr<graph::Calibration> calibration = Run(flags);
  if (!calibration.ok())
    return JobError("calibrate", calibration.status());
  return PrintSummary(
      "calibrate",
      flags.json ? CalibrationJson(*calibration, flags.cluster, flags.output) + "\n"
                 : CalibrationText(*calibration, flags.cluster, flags.output),
      flags.json, flags.output);
}

}  // namespace vrank::tools
