// The alpha-beta network model: a latency per step and a bandwidth per link class.
//
// For each collective the cluster names the algorithms that may run it; each costs
//
//   base + steps_inside * inside_step + steps_between * between_step
//        + max(traffic / bandwidth, NIC traffic / bandwidth of the NICs)
//
// and the fastest is taken; where the site was measured, times a factor by size
// (MeasuredCurve). Steps follow the algorithm's shape (ring: 2(n-1) for an
// all-reduce, n-1 otherwise), traffic is NCCL's bus traffic (2(n-1)/n S for an
// all-reduce) and a multiple of the member's own share, and the NICs are those of the
// members of the node that has fewest. What each term leaves out: docs/models.md.
//
// Results are integers made from the same operations in the same order everywhere, so a
// replay costs what the live run cost.
//
// Thread rule: const methods, safe from several threads.

#ifndef VRANK_GRAPH_MODELS_ALPHA_BETA_NETWORK_H_
#define VRANK_GRAPH_MODELS_ALPHA_BETA_NETWORK_H_

#include <array>
#include <vector>

#include <absl/status/statusor.h>

#include "base/guest/communicator_memory.h"
#include "graph/models/cluster.pb.h"
#include "graph/models/measured_factors.h"
#include "graph/replay/network_model.h"

namespace vrank::graph {

class AlphaBetaNetwork : public NetworkModel {
 public:
  // REQUIRES: CheckCluster(cluster).ok()
  explicit AlphaBetaNetwork(const ClusterDescription& cluster);
  AlphaBetaNetwork(const AlphaBetaNetwork&) = delete;
  AlphaBetaNetwork& operator=(const AlphaBetaNetwork&) = delete;

  Cost Collective(const CollectiveCall& call,
                  std::span<const int32_t> members) const override;
  Cost Transfer(uint64_t bytes, int32_t from, int32_t to) const override;
  uint64_t TransferCreditBytes(int32_t from, int32_t to) const override;
  Cost Creation(std::span<const int32_t> members) const override;

  // The name of the algorithm that Collective takes; for reports.
  const std::string& AlgorithmName(const CollectiveCall& call,
                                   std::span<const int32_t> members) const;

  // What a collective's cost is made of, for who shares links among operations.
  struct Parts {
    LatencyShape shape = CONSTANT;
    bool reduced_in_switch = false;
    double traffic = 0;       // bytes over the busiest link inside a node
    int64_t transfer_ns = 0;  // what they take; the rest of the cost moves nothing
    int64_t nics = 0;         // of a node that take part; 0: inside one node
  };
  // REQUIRES: members.size() > 1
  Parts PartsOf(const CollectiveCall& call, std::span<const int32_t> members) const;
  // The part of Transfer that grows with the bytes.
  int64_t TransferNs(uint64_t bytes, int32_t from, int32_t to) const;
  const ClusterDescription& cluster() const { return cluster_; }

  CommunicatorMemory communicator_memory() const {
    return {.first_bytes = cluster_.communicator_bytes(),
            .peer_bytes = cluster_.communicator_peer_bytes(),
            .single_bytes = cluster_.communicator_single_bytes(),
            .tree_bytes = cluster_.communicator_tree_bytes(),
            .nvls_bytes = cluster_.communicator_nvls_bytes(),
            .nvls_members = static_cast<uint64_t>(cluster_.gpus_per_node())};
  }

 private:
  // How the members of a communicator lie on nodes.
  struct Placement {
    int64_t members = 0;
    int64_t nodes = 0;
    int64_t fewest_per_node = 0;
    int64_t most_per_node = 0;
  };
  struct Choice {
    const Algorithm* algorithm = nullptr;
    int64_t ns = 0;
  };
  static constexpr int kOperations = ClusterOperation_ARRAYSIZE;
  using Menu = std::array<std::vector<const Algorithm*>, kOperations>;

  int32_t NodeOf(int32_t rank) const { return rank / ranks_per_node_; }
  Placement Place(std::span<const int32_t> members) const;
  // What the measured curves make of a time.
  int64_t Measured(int64_t ns, const CollectiveCall& call,
                   const Placement& placement) const;
  Choice Choose(const CollectiveCall& call, std::span<const int32_t> members) const;
  const PointToPointLink& LinkOf(int32_t from, int32_t to) const {
    return (NodeOf(from) == NodeOf(to) ? cluster_.inside() : cluster_.between())
        .point_to_point();
  }
  int64_t Price(const Algorithm& algorithm, CollectiveKind operation, double bytes,
                const Placement& placement) const;
  double NicsFor(CollectiveKind operation, const Placement& placement) const;
  int64_t MovingNs(const Algorithm& algorithm, CollectiveKind operation, double bytes,
                   const Placement& placement) const;

  ClusterDescription cluster_;
  int32_t ranks_per_node_;
  Menu inside_;  // algorithms by operation; they point into cluster_
  Menu between_;
  MeasuredFactors measured_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_ALPHA_BETA_NETWORK_H_
