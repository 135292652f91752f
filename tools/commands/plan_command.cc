#include "tools/commands/plan_command.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/rank_list.h"
#include "graph/build/rank_plan.h"
#include "graph/membership/layout.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

struct PlanFlags {
  std::string layout;
  int32_t world_size = 0;  // 0: the product of the layout's sizes
  bool json = false;
};

std::string PlanJson(const graph::Layout& layout, const graph::RankPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json ranks = Json::array();
  for (const graph::RankPlan::Entry& entry : plan.entries)
    ranks.push_back(Json{{"rank", entry.rank},
                         {"class", entry.class_name},
                         {"class_size", entry.class_size},
                         {"coordinates", entry.coordinates},
                         {"deciding", entry.deciding},
                         {"reason", entry.reason}});
  return Json{{"schema", "vrank.plan/1"},
              {"world_size", layout.world_size()},
              {"layout", layout.ToString()},
              {"ranks", ranks}}
      .dump(2);
}

std::string PlanText(const graph::Layout& layout, const graph::RankPlan& plan) {
  Table table;
  table.Add({"rank", "at", "traced for"});
  for (const graph::RankPlan::Entry& entry : plan.entries)
    table.Add({std::to_string(entry.rank), entry.coordinates, entry.reason});
  return fmt::format(
      "{} of {:L} ranks are to be traced (layout {}).\n\n{}\n"
      "vrank trace --world-size {} --layout {} --ranks {} -o slices -- PROGRAM ...\n",
      plan.entries.size(), layout.world_size(), layout.ToString(), table.ToString(2),
      layout.world_size(), layout.ToString(), FormatRanks(plan.ranks()));
}

}  // namespace

int RunPlanCommand(const CommandLine& line) {
  CLI::App app;
  PlanFlags flags;
  app.add_option("--layout", flags.layout)->required();
  app.add_option("--world-size", flags.world_size)->check(CLI::Range(1, 1 << 20));
  app.add_flag("--json", flags.json);
  if (const auto exit = ParseFlags("plan", &app, line.flags); exit.has_value())
    return *exit;
  if (!line.program.empty())
    return UsageError("plan", "a plan needs no program; leave out what follows --");
  const auto layout = flags.world_size == 0
                          ? graph::Layout::ParseWorld(flags.layout)
                          : graph::Layout::Parse(flags.layout, flags.world_size);
  if (!layout.ok())
    return UsageError("plan", std::string(layout.status().message()));
  const graph::RankPlan plan = graph::PlanSlices(*layout);
  return PrintResult(
      "plan", flags.json ? PlanJson(*layout, plan) + "\n" : PlanText(*layout, plan));
}

}  // namespace vrank::tools
