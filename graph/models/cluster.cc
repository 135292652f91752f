// Loading and checking cluster descriptions.

#include "graph/models/cluster.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "base/text_proto.h"
#include "graph/models/description_file.h"

namespace vrank::graph {
namespace {

constexpr char kKind[] = "clusters";

using Zero = Problems::Zero;

void CheckPointToPoint(const PointToPointLink& link, const std::string& where,
                       Problems* problems) {
  problems->RequireRate(link.gbs(), where + ".gbs", Zero::kRefused);
  problems->RequireNs(link.latency_ns(), where + ".latency_ns", Zero::kRefused);
  problems->RequireRate(link.channel_gbs(), where + ".channel_gbs", Zero::kAllowed);
  if (link.channel_gbs() != 0) {
    constexpr uint64_t kMostChannels = 64;  // NCCL's MAXCHANNELS
    problems->RequireCount(link.channels(), where + ".channels", kMostChannels);
    problems->RequireBytes(link.channel_bytes(), where + ".channel_bytes",
                           Zero::kRefused);
  }
  problems->RequireBytes(link.ll_bytes(), where + ".ll_bytes", Zero::kAllowed);
  if (link.ll_bytes() != 0) {
    problems->RequireNs(link.ll_latency_ns(), where + ".ll_latency_ns", Zero::kRefused);
    problems->RequireRate(link.ll_gbs(), where + ".ll_gbs", Zero::kRefused);
  }
}

void CheckLinkClass(const LinkClass& link, const std::string& where,
                    Problems* problems) {
  // Every operation needs an algorithm that is allowed for any number of members.
  bool served[ClusterOperation_ARRAYSIZE] = {};
  for (const Algorithm& algorithm : link.algorithm()) {
    const std::string name = fmt::format("{}.{}", where, algorithm.name());
    if (algorithm.operation().empty())
      problems->Add(fmt::format("{} names no operation", name));
    problems->RequireRate(algorithm.bus_gbs(), name + ".bus_gbs", Zero::kRefused);
    problems->RequireNs(algorithm.base_ns(), name + ".base_ns", Zero::kRefused);
    problems->RequireNs(algorithm.inside_step_ns(), name + ".inside_step_ns",
                        Zero::kAllowed, Problems::kMostStepNs);
    problems->RequireNs(algorithm.between_step_ns(), name + ".between_step_ns",
                        Zero::kAllowed, Problems::kMostStepNs);
    constexpr double kMostOwnShares = 16;
    if (!(algorithm.own_share() >= 0 && algorithm.own_share() <= kMostOwnShares))
      problems->Add(fmt::format("{}.own_share must be from 0 to {}, is {}", name,
                                kMostOwnShares, algorithm.own_share()));
    problems->RequireBytes(algorithm.min_bytes(), name + ".min_bytes", Zero::kAllowed);
    std::set<int> named;
    for (int operation : algorithm.operation()) {
      if (!named.insert(operation).second)
        problems->Add(fmt::format(
            "{} names {} twice", name,
            ClusterOperation_Name(static_cast<ClusterOperation>(operation))));
      if (algorithm.min_members_per_node() <= 1 && algorithm.min_bytes() == 0)
        served[operation] = true;
    }
  }
  for (int operation = 0; operation < ClusterOperation_ARRAYSIZE; ++operation) {
    if (!served[operation]) {
      problems->Add(fmt::format(
          "{} has no algorithm for {} that serves any size and number of members per "
          "node",
          where, ClusterOperation_Name(static_cast<ClusterOperation>(operation))));
    }
  }
  CheckPointToPoint(link.point_to_point(), where + ".point_to_point", problems);
}

void CheckCurve(const MeasuredCurve& curve, const std::string& where,
                Problems* problems) {
  constexpr uint64_t kMostMembers = uint64_t{1} << 24;
  constexpr double kMostFactor = 1000;
  problems->RequireCount(curve.members(), where + ".members", kMostMembers);
  problems->RequireCount(curve.nodes(), where + ".nodes", kMostMembers);
  if (curve.members() < 2 || curve.nodes() > curve.members())
    problems->Add(fmt::format("{}: {} members on {} nodes", where, curve.members(),
                              curve.nodes()));
  if (curve.point().empty())
    problems->Add(where + " has no point");
  uint64_t before = 0;
  for (const MeasuredCurve::Point& point : curve.point()) {
    problems->RequireBytes(point.bytes(), where + ".point.bytes", Zero::kRefused);
    if (point.bytes() <= before)
      problems->Add(where + ".point: bytes must ascend");
    before = point.bytes();
    if (!(point.factor() >= 1 / kMostFactor && point.factor() <= kMostFactor))
      problems->Add(fmt::format("{}.point.factor must be from {} to {}, is {}", where,
                                1 / kMostFactor, kMostFactor, point.factor()));
  }
}

}  // namespace

int32_t RanksPerNode(const ClusterDescription& cluster) {
  return static_cast<int32_t>(cluster.ranks_per_node() != 0 ? cluster.ranks_per_node()
                                                            : cluster.gpus_per_node());
}

bool ReducesInSwitch(const Algorithm& algorithm) {
  return algorithm.shape() != RING && algorithm.inside_step_ns() == 0 &&
         algorithm.operation_size() == 1 && algorithm.operation(0) == ALL_REDUCE;
}

absl::Status CheckCluster(const std::string& subject,
                          const ClusterDescription& cluster) {
  Problems problems(fmt::format("cluster '{}'", subject));
  constexpr uint64_t kMostPerNode = 1 << 16;
  problems.RequireCount(cluster.gpus_per_node(), "gpus_per_node", kMostPerNode);
  problems.RequireCount(cluster.ranks_per_node(), "ranks_per_node", kMostPerNode,
                        Zero::kAllowed);
  CheckLinkClass(cluster.inside(), "inside", &problems);
  CheckLinkClass(cluster.between(), "between", &problems);
  problems.RequireRate(cluster.nic_gbs(), "nic_gbs", Zero::kRefused);
  problems.RequireCount(cluster.nics_per_node(), "nics_per_node", 1024);
  problems.RequireRate(cluster.fabric().port_gbs(), "fabric.port_gbs", Zero::kAllowed);
  problems.RequireCount(cluster.fabric().nodes_per_leaf(), "fabric.nodes_per_leaf",
                        1 << 20, Zero::kAllowed);
  if (const double share = cluster.fabric().oversubscription();
      share != 0 && !(share >= 1 && share <= 1e6))
    problems.Add(
        fmt::format("fabric.oversubscription is {}; it must be from 1 (all that the "
                    "NICs carry) to 1e6",
                    share));
  for (int i = 0; i < cluster.measured_size(); ++i)
    CheckCurve(cluster.measured(i), fmt::format("measured[{}]", i), &problems);
  problems.RequireBytes(cluster.transfer_credit_bytes(), "transfer_credit_bytes",
                        Zero::kAllowed);
  problems.RequireNs(cluster.creation_base_ns(), "creation_base_ns", Zero::kAllowed);
  problems.RequireNs(cluster.creation_member_ns(), "creation_member_ns", Zero::kAllowed,
                     Problems::kMostStepNs);
  problems.RequireBytes(cluster.communicator_bytes(), "communicator_bytes",
                        Zero::kAllowed);
  problems.RequireBytes(cluster.communicator_peer_bytes(), "communicator_peer_bytes",
                        Zero::kAllowed);
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
