#include "tools/report/contention_report.h"

#include <fmt/format.h>

#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLinks = 10;
constexpr char kModel[] = "max-min fair flows, an algorithm's data spread evenly";

}  // namespace

Json ContentionJson(const SharedLinks& shared) {
  const graph::FlowSimulation& simulation = shared.simulation();
  Json links = Json::array();
  for (const SharedLinks::Link& link : shared.Slowest(kLinks))
    links.push_back(Json{{"link", link.name}, {"delay_ns", link.delay_ns}});
  return Json{{"model", kModel},
              {"links", simulation.delay_ns().size()},
              {"flows", simulation.events() / 2},
              {"delayed_flows", simulation.delayed()},
              {"slowest_links", links}};
}

std::string ContentionText(const SharedLinks& shared) {
  const graph::FlowSimulation& simulation = shared.simulation();
  std::string text = fmt::format(
      "contention  {} of {} flows ended later than alone; modelled: {}\n",
      FormatCount(simulation.delayed()), FormatCount(simulation.events() / 2), kModel);
  Table table;
  table.Add({"link that slowed flows down last", "their delays, added up"});
  const std::vector<SharedLinks::Link> links = shared.Slowest(kLinks);
  for (const SharedLinks::Link& link : links)
    table.Add({link.name, FormatTime(link.delay_ns)});
  return links.empty() ? text : text + table.ToString(0);
}

}  // namespace vrank::tools
