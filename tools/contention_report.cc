#include "tools/contention_report.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/models/cluster.h"
#include "tools/output_style.h"

namespace vrank::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLinks = 10;
constexpr int64_t kMostLinks = int64_t{1} << 26;  // 1 GiB of them
constexpr char kModel[] = "max-min fair flows, an algorithm's data spread evenly";

}  // namespace

absl::StatusOr<std::unique_ptr<SharedLinks>> SharedLinks::Of(const PricedJob& priced) {
  const auto* network =
      dynamic_cast<const graph::AlphaBetaNetwork*>(priced.network.get());
  if (network == nullptr)
    return absl::InvalidArgumentError(
        "--contention: the times of this graph were recorded, with all contention that "
        "there was; name a cluster to replay it on (--cluster)");
  int32_t ranks = 0;
  for (const graph::ReplayJob::Rank& rank : priced.job.job.ranks)
    ranks = std::max(ranks, rank.world_rank + 1);
  const graph::ClusterDescription& cluster = network->cluster();
  const int64_t per_node = graph::RanksPerNode(cluster);
  const int64_t links =
      2 * (ranks + (ranks + per_node - 1) / per_node * (cluster.nics_per_node() + 1));
  if (links > kMostLinks)
    return absl::InvalidArgumentError(fmt::format(
        "--contention: {} ranks share {} links on this cluster, and at most {} are "
        "modelled; name another one (--cluster)",
        ranks, FormatCount(static_cast<uint64_t>(links)), kMostLinks));
  return std::unique_ptr<SharedLinks>(new SharedLinks(network, ranks));
}

std::vector<SharedLinks::Link> SharedLinks::Slowest() const {
  const std::vector<int64_t>& delays = contention_.simulation().delay_ns();
  std::vector<uint32_t> order(delays.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&delays](uint32_t a, uint32_t b) { return delays[a] > delays[b]; });
  std::vector<Link> links;
  for (const uint32_t link : order) {
    if (links.size() == kLinks || delays[link] == 0)
      break;
    links.push_back({topology_.LinkName(link), delays[link]});
  }
  return links;
}

nlohmann::ordered_json SharedLinks::ToJson() const {
  const graph::FlowSimulation& simulation = contention_.simulation();
  Json links = Json::array();
  for (const Link& link : Slowest())
    links.push_back(Json{{"link", link.name}, {"delay_ns", link.delay_ns}});
  return Json{{"model", kModel},
              {"links", simulation.delay_ns().size()},
              {"flows", simulation.events() / 2},
              {"delayed_flows", simulation.delayed()},
              {"slowest_links", links}};
}

std::string SharedLinks::ToText() const {
  const graph::FlowSimulation& simulation = contention_.simulation();
  std::string text = fmt::format(
      "contention  {} of {} flows ended later than alone; modelled: {}\n",
      FormatCount(simulation.delayed()), FormatCount(simulation.events() / 2), kModel);
  Table table;
  table.Add({"link that slowed flows down last", "their delays, added up"});
  const std::vector<Link> links = Slowest();
  for (const Link& link : links)
    table.Add({link.name, FormatTime(link.delay_ns)});
  return links.empty() ? text : text + table.ToString(0);
}

}  // namespace vrank::tools
