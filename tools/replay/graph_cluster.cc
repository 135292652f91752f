#include "tools/replay/graph_cluster.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "tools/job/program_fingerprint.h"
#include "tools/job/stated_options.h"

namespace vrank::tools {
namespace {

constexpr uint32_t kMostRanksPerNode = 1024;  // as --ranks-per-node allows

absl::Status CheckFile(const graph::ExecutionGraph& graph) {
  const std::optional<std::string> traced = FileOf(graph.cost_options, kClusterOption);
  if (!traced.has_value())
    return absl::OkStatus();
  const absl::StatusOr<std::string> now = FileFingerprint(graph.cluster);
  if (now.ok() && *now == *traced)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the graph was traced on the cluster that {} described then ({}), "
                  "and {}; put that "
                  "file back, or give --cluster",
                  graph.cluster, *traced,
                  now.ok() ? fmt::format("it is another one now ({})", *now)
                           : std::string(now.status().message())));
}

std::string Words(const std::string& name, const graph::ClusterDescription& cluster) {
  const int32_t ranks = graph::RanksPerNode(cluster);
  if (ranks == static_cast<int32_t>(cluster.gpus_per_node()))
    return name;
  return fmt::format("{}, {} rank{} per node", name, ranks, ranks == 1 ? "" : "s");
}

}  // namespace

absl::StatusOr<uint32_t> RanksPerNodeOf(const graph::ExecutionGraph& graph) {
  const std::optional<std::string> stated =
      ValueOf(graph.cost_options, kRanksPerNodeOption);
  if (!stated.has_value())
    return uint32_t{0};
  uint32_t ranks = 0;
  const char* const end = stated->data() + stated->size();
  if (const auto [at, error] = std::from_chars(stated->data(), end, ranks);
      error != std::errc() || at != end || ranks == 0 || ranks > kMostRanksPerNode)
    return absl::DataLossError(
        fmt::format("the graph states '{}' ranks per node", *stated));
  return ranks;
}

absl::StatusOr<GraphCluster> ClusterOf(const graph::ExecutionGraph& graph,
                                       const Installation& installation,
                                       const std::string& cluster) {
  const std::string& name = cluster.empty() ? graph.cluster : cluster;
  if (cluster.empty())
    RETURN_IF_ERROR(CheckFile(graph));
  auto description = graph::LoadCluster(name, installation.data_dir);
  if (absl::IsNotFound(description.status()) && !cluster.empty())
    return absl::InvalidArgumentError(
        fmt::format("--cluster: {}", std::string(description.status().message())));
  RETURN_IF_ERROR(description.status());
  ASSIGN_OR_RETURN(const uint32_t ranks_per_node, RanksPerNodeOf(graph));
  const bool states_own = !cluster.empty() && description->ranks_per_node() != 0;
  if (ranks_per_node != 0 && !states_own)
    description->set_ranks_per_node(ranks_per_node);
  std::string text = Words(name, *description);
  if (name != graph.cluster && !graph.cluster.empty())
    text += fmt::format(
        " (the graph has: {}{})", graph.cluster,
        ranks_per_node == 0 ? "" : fmt::format(", {} ranks per node", ranks_per_node));
  return GraphCluster{std::move(text), *std::move(description)};
}

}  // namespace vrank::tools
