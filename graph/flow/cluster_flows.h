// What moves where in a cluster, by the algorithm that the network model has chosen.
//
// Bytes are such that the busiest port and the busiest NIC of an operation carry what
// the model says that they carry, so that an operation alone takes what the model says:
//
//   ring              members by node, then by place in the communicator. Between
//                     neighbouring nodes a k-th of the traffic on each of k NICs;
//                     inside, from each member to the next, a cycle whose closing hop
//                     moves over from ring to ring: (m-1)/m of the traffic where there
//                     are m members and other nodes, all of it in a node alone.
//   tree              between nodes two binary trees, each node inside one and a leaf
//   in
//                     the other (NCCL, src/graph/trees.cc): a quarter of the traffic up
//                     and down each edge, on k NICs. Inside, a chain with half each
//                     way.
//   reduced in the switch   inside a node half of the traffic out of each member's
//                     port and half into it.
//   all-to-all        from every member to every other one.
//   gather, scatter   between the root and every other member.
//   broadcast, reduce     a chain in the communicator's order, as the ends depend on
//   each
//                     other; where that goes to and fro between nodes, its hops share
//                     NICs, and it takes longer than the model says even alone.
//
// In the last two rows a member ends with the data that it sends and receives, in the
// others with all of it. Loads of k NICs are on the members' own ones, then on others
// of their nodes.
//
// Thread rule: const methods, from several threads.

#ifndef VRANK_GRAPH_FLOW_CLUSTER_FLOWS_H_
#define VRANK_GRAPH_FLOW_CLUSTER_FLOWS_H_

#include <span>
#include <utility>
#include <vector>

#include "graph/flow/flow_model.h"
#include "graph/flow/topology.h"
#include "graph/models/alpha_beta_network.h"

namespace vrank::graph {

// The edges of two binary trees over 0 .. nodes-1, as (parent, child).
std::vector<std::pair<int32_t, int32_t>> DoubleTree(int32_t nodes);

class ClusterFlows : public FlowModel {
 public:
  // Both outlive it.
  ClusterFlows(const AlphaBetaNetwork* network, const Topology* topology)
      : network_(network), topology_(topology) {}

  void AddLinks(FlowSimulation* simulation) const override {
    topology_->AddLinks(simulation);
  }
  std::vector<CollectivePiece> Collective(
      const CollectiveCall& call, std::span<const int32_t> members) const override;
  FlowPlan Transfer(uint64_t bytes, int32_t from, int32_t to) const override;

 private:
  // The members on one node.
  struct Node {
    int32_t node = 0;
    std::vector<int32_t> ranks;
    std::vector<int32_t> nics;  // k of them
  };

  std::vector<Node> NodesOf(std::span<const int32_t> members, int64_t nics) const;
  void Between(const Node& from, const Node& to, double bytes, FlowPlan* plan) const;
  void Direct(int32_t from, int32_t to, double bytes, FlowPlan* plan) const;
  void Ring(const std::vector<Node>& nodes, double traffic, FlowPlan* plan) const;
  void Tree(const std::vector<Node>& nodes, double traffic, FlowPlan* plan) const;
  void Chain(const Node& node, double traffic, FlowPlan* plan) const;
  void Switched(const Node& node, double traffic, FlowPlan* plan) const;
  std::vector<CollectivePiece> Rooted(const CollectiveCall& call,
                                      std::span<const int32_t> members,
                                      const AlphaBetaNetwork::Parts& parts) const;

  const AlphaBetaNetwork* const network_;
  const Topology* const topology_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_CLUSTER_FLOWS_H_
