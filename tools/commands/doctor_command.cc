#include "tools/commands/doctor_command.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/machine/machine_check.h"
#include "tools/machine/version.h"

namespace vrank::tools {
namespace {

const char* Name(Health health) {
  switch (health) {
    case Health::kFine:
      return "fine";
    case Health::kLimited:
      return "limited";
    case Health::kMissing:
      return "missing";
  }
  return "";
}

std::string DoctorJson(const std::vector<MachineFinding>& findings, bool ready) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const MachineFinding& finding : findings)
    rows.push_back(Json{{"topic", finding.topic},
                        {"health", Name(finding.health)},
                        {"reading", finding.is_reading},
                        {"found", finding.found},
                        {"advice", finding.advice}});
  return Json{{"schema", "vrank.doctor/1"},
              {"version", Version()},
              {"ready", ready},
              {"findings", rows}}
      .dump(2);
}

std::string DoctorText(const std::vector<MachineFinding>& findings, bool ready) {
  std::string text;
  for (const MachineFinding& finding : findings) {
    text += fmt::format("{:<8} {:<16} {}\n", Name(finding.health), finding.topic,
                        finding.found);
    if (!finding.advice.empty())
      text += fmt::format("{:<25} {}\n", "", finding.advice);
  }
  return fmt::format("{}\n{}\n", text,
                     ready ? "Jobs can run here. Try `vrank demo`."
                           : "No job can run here before what is missing is mended.");
}

}  // namespace

int RunDoctorCommand(const CommandLine& line) {
  CLI::App app;
  bool json = false;
  app.add_flag("--json", json);
  if (const auto exit = ParseFlags("doctor", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("doctor", "no program is run; leave out what follows --");
  const std::vector<MachineFinding> findings = CheckMachine();
  const bool ready = std::none_of(findings.begin(), findings.end(), [](const auto& f) {
    return f.health == Health::kMissing;
  });
  const int printed = PrintResult("doctor", json ? DoctorJson(findings, ready) + "\n"
                                                 : DoctorText(findings, ready));
  return ready ? printed : kExitFailed;
}

}  // namespace vrank::tools
