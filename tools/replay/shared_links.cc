#include "tools/replay/shared_links.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "graph/models/alpha_beta_network.h"
#include "graph/models/cluster.h"
#include "tools/terminal/output_style.h"

namespace vrank::tools {
namespace {

constexpr int64_t kMostLinks = int64_t{1} << 26;  // 1 GiB of them

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

std::vector<SharedLinks::Link> SharedLinks::Slowest(size_t most) const {
  const std::vector<int64_t>& delays = contention_.simulation().delay_ns();
  std::vector<uint32_t> order(delays.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&delays](uint32_t a, uint32_t b) { return delays[a] > delays[b]; });
  std::vector<Link> links;
  for (const uint32_t link : order) {
    if (links.size() == most || delays[link] == 0)
      break;
    links.push_back({topology_.LinkName(link), delays[link]});
  }
  return links;
}

}  // namespace vrank::tools
