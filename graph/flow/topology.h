// The links of a cluster: which ones a byte takes from one rank to another.
//
//   inside a node       the sender's port out, the receiver's port in; the switch
//   between
//                       them never is the narrow place
//   between nodes       a NIC out, a NIC in; between leaves also the one leaf's links
//   up
//                       and the other's down
//
// All links from a leaf to the spine count as one: traffic is spread over them evenly,
// as adaptive routing does at best. One node alone is a single NVLink domain.
//
// Thread rule: const methods, from several threads.

#ifndef VRANK_GRAPH_FLOW_TOPOLOGY_H_
#define VRANK_GRAPH_FLOW_TOPOLOGY_H_

#include <cstdint>
#include <string>

#include "graph/flow/flow_simulation.h"
#include "graph/models/cluster.pb.h"

namespace vrank::graph {

struct TopologyOptions {
  int32_t ranks = 0;
  int32_t ranks_per_node = 8;
  int32_t nics_per_node = 8;
  int32_t nodes_per_leaf = 0;  // 0: all
  // Each direction, bytes per ns. A leaf's uplinks carry what its NICs do, divided by
  // the oversubscription (>= 1).
  double port_gbs = 0;
  double nic_gbs = 0;
  double oversubscription = 1;
};

class Topology {
 public:
  explicit Topology(const TopologyOptions& options) : options_(options) {}
  // A NIC and a port are at least as fast as the fastest thing that one operation does
  // with them, so that nothing gets slower for being alone.
  static Topology Of(const ClusterDescription& cluster, int32_t ranks);

  void AddLinks(FlowSimulation* simulation) const;
  // "rank 3 port out", "node 2 NIC 0 in", "leaf 1 up".
  std::string LinkName(uint32_t link) const;

  int32_t NodeOf(int32_t rank) const { return rank / options_.ranks_per_node; }
  // The NIC that a rank's own transfers use: neighbours share where there are fewer.
  int32_t NicOf(int32_t rank) const;
  int32_t nics_per_node() const { return options_.nics_per_node; }

  // Fills in `flow`'s path from one rank to another, or between two NICs of nodes.
  void Route(int32_t from, int32_t to, FlowPlan::Flow* flow) const;
  void RouteNics(int32_t from_node, int32_t from_nic, int32_t to_node, int32_t to_nic,
                 FlowPlan::Flow* flow) const;

 private:
  int32_t Nodes() const;
  int32_t Leaves() const;
  int32_t LeafOf(int32_t node) const;
  uint32_t Port(int32_t rank, bool in) const;
  uint32_t Nic(int32_t node, int32_t nic, bool in) const;
  uint32_t Uplink(int32_t leaf, bool down) const;

  TopologyOptions options_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_FLOW_TOPOLOGY_H_
