// Loading and checking cluster descriptions.

#include "graph/models/cluster.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/models/description_file.h"

namespace vrank::graph {
namespace {

constexpr char kKind[] = "clusters";

void CheckLinkClass(const LinkClass& link, const std::string& where,
                    Problems* problems) {
  // Every operation needs an algorithm that is allowed for any number of members.
  bool served[ClusterOperation_ARRAYSIZE] = {};
  for (const Algorithm& algorithm : link.algorithm()) {
    const std::string name = fmt::format("{}.{}", where, algorithm.name());
    if (algorithm.operation().empty()) {
      problems->Add(fmt::format("{} names no operation", name));
    }
    problems->RequirePositive(algorithm.bus_gbs(), (name + ".bus_gbs").c_str());
    problems->RequirePositive(static_cast<double>(algorithm.base_ns()),
                              (name + ".base_ns").c_str());
    problems->RequireNotNegative(static_cast<double>(algorithm.inside_step_ns()),
                                 (name + ".inside_step_ns").c_str());
    problems->RequireNotNegative(static_cast<double>(algorithm.between_step_ns()),
                                 (name + ".between_step_ns").c_str());
    for (int operation : algorithm.operation()) {
      if (ClusterOperation_IsValid(operation) &&
          algorithm.min_members_per_node() <= 1) {
        served[operation] = true;
      }
    }
  }
  for (int operation = 0; operation < ClusterOperation_ARRAYSIZE; ++operation) {
    if (!served[operation]) {
      problems->Add(fmt::format(
          "{} has no algorithm for {} that serves any number of members per node",
          where, ClusterOperation_Name(static_cast<ClusterOperation>(operation))));
    }
  }
  problems->RequirePositive(link.point_to_point().gbs(),
                            (where + ".point_to_point.gbs").c_str());
  problems->RequirePositive(static_cast<double>(link.point_to_point().latency_ns()),
                            (where + ".point_to_point.latency_ns").c_str());
}

}  // namespace

int32_t RanksPerNode(const ClusterDescription& cluster) {
  return static_cast<int32_t>(cluster.ranks_per_node() != 0 ? cluster.ranks_per_node()
                                                            : cluster.gpus_per_node());
}

absl::Status CheckCluster(const std::string& subject,
                          const ClusterDescription& cluster) {
  Problems problems(fmt::format("cluster '{}'", subject));
  problems.RequirePositive(cluster.gpus_per_node(), "gpus_per_node");
  CheckLinkClass(cluster.inside(), "inside", &problems);
  CheckLinkClass(cluster.between(), "between", &problems);
  problems.RequirePositive(cluster.nic_gbs(), "nic_gbs");
  problems.RequirePositive(cluster.nics_per_node(), "nics_per_node");
  problems.RequireNotNegative(cluster.fabric().port_gbs(), "fabric.port_gbs");
  if (const double share = cluster.fabric().oversubscription();
      share != 0 && !(share >= 1))
    problems.Add(
        fmt::format("fabric.oversubscription is {}; it must be at least 1 (all that "
                    "the NICs carry)",
                    share));
  problems.RequireNotNegative(static_cast<double>(cluster.creation_base_ns()),
                              "creation_base_ns");
  problems.RequireNotNegative(static_cast<double>(cluster.creation_member_ns()),
                              "creation_member_ns");
  return problems.ToStatus();
}

absl::StatusOr<ClusterDescription> LoadCluster(const std::string& name_or_path,
                                               const std::string& data_dir) {
  std::string path = name_or_path;
  if (!MeansFile(name_or_path)) {
    path = DescriptionPath(data_dir, kKind, name_or_path);
    const std::vector<std::string> known = DescriptionNames(data_dir, kKind);
    if (std::find(known.begin(), known.end(), name_or_path) == known.end()) {
      return absl::NotFoundError(fmt::format(
          "cluster '{}': no such description in '{}/{}' (there are: {}); give one of "
          "these names or a .textproto file",
          name_or_path, data_dir, kKind, fmt::join(known, ", ")));
    }
  }
  ClusterDescription cluster;
  RETURN_IF_ERROR(ReadTextProto(path, &cluster));
  RETURN_IF_ERROR(CheckCluster(name_or_path, cluster));
  return cluster;
}

}  // namespace vrank::graph
