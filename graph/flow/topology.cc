#include "graph/flow/topology.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/models/cluster.h"

namespace vrank::graph {

Topology Topology::Of(const ClusterDescription& cluster, int32_t ranks) {
  TopologyOptions options;
  options.ranks = ranks;
  options.ranks_per_node = RanksPerNode(cluster);
  options.nics_per_node = static_cast<int32_t>(cluster.nics_per_node());
  options.nodes_per_leaf = static_cast<int32_t>(cluster.fabric().nodes_per_leaf());
  if (cluster.fabric().oversubscription() != 0)
    options.oversubscription = cluster.fabric().oversubscription();
  options.nic_gbs =
      std::max(cluster.nic_gbs(), cluster.between().point_to_point().gbs());
  options.port_gbs =
      std::max(cluster.fabric().port_gbs(), cluster.inside().point_to_point().gbs());
  // What the busiest port carries of an operation's bus traffic: cluster_flows.h.
  for (const LinkClass* link : {&cluster.inside(), &cluster.between()}) {
    for (const Algorithm& algorithm : link->algorithm()) {
      options.port_gbs = std::max(
          options.port_gbs, algorithm.bus_gbs() / (ReducesInSwitch(algorithm) ? 2 : 1));
    }
  }
  return Topology(options);
}

int32_t Topology::Nodes() const {
  return (options_.ranks + options_.ranks_per_node - 1) / options_.ranks_per_node;
}

int32_t Topology::Leaves() const {
  return options_.nodes_per_leaf == 0
             ? 1
             : (Nodes() + options_.nodes_per_leaf - 1) / options_.nodes_per_leaf;
}

int32_t Topology::LeafOf(int32_t node) const {
  return options_.nodes_per_leaf == 0 ? 0 : node / options_.nodes_per_leaf;
}

int32_t Topology::NicOf(int32_t rank) const {
  return rank % options_.ranks_per_node * options_.nics_per_node /
         options_.ranks_per_node;
}

// Ports first, then NICs, then uplinks; out and in, up and down in turn.
uint32_t Topology::Port(int32_t rank, bool in) const {
  return static_cast<uint32_t>(2 * rank) + (in ? 1 : 0);
}

uint32_t Topology::Nic(int32_t node, int32_t nic, bool in) const {
  return static_cast<uint32_t>(2 *
                               (options_.ranks + node * options_.nics_per_node + nic)) +
         (in ? 1 : 0);
}

uint32_t Topology::Uplink(int32_t leaf, bool down) const {
  return static_cast<uint32_t>(
             2 * (options_.ranks + Nodes() * options_.nics_per_node + leaf)) +
         (down ? 1 : 0);
}

void Topology::AddLinks(FlowSimulation* simulation) const {
  const auto add = [simulation](int32_t count, double gbs) {
    for (int32_t i = 0; i < 2 * count; ++i)
      simulation->AddLink(gbs);
  };
  add(options_.ranks, options_.port_gbs);
  add(Nodes() * options_.nics_per_node, options_.nic_gbs);
  add(Leaves(), options_.nic_gbs * options_.nics_per_node *
                    std::max(1, options_.nodes_per_leaf) / options_.oversubscription);
}

std::string Topology::LinkName(uint32_t link) const {
  const auto number = static_cast<int32_t>(link / 2);
  const bool in = link % 2 != 0;
  if (number < options_.ranks)
    return fmt::format("rank {} port {}", number, in ? "in" : "out");
  const int32_t nic = number - options_.ranks;
  if (nic < Nodes() * options_.nics_per_node)
    return fmt::format("node {} NIC {} {}", nic / options_.nics_per_node,
                       nic % options_.nics_per_node, in ? "in" : "out");
  return fmt::format("leaf {} {}", nic - Nodes() * options_.nics_per_node,
                     in ? "down" : "up");
}

void Topology::Route(int32_t from, int32_t to, FlowPlan::Flow* flow) const {
  if (from == to) {
    flow->hops = 0;
  } else if (NodeOf(from) == NodeOf(to)) {
    flow->path[0] = Port(from, false);
    flow->path[1] = Port(to, true);
    flow->hops = 2;
  } else {
    RouteNics(NodeOf(from), NicOf(from), NodeOf(to), NicOf(to), flow);
  }
}

void Topology::RouteNics(int32_t from_node, int32_t from_nic, int32_t to_node,
                         int32_t to_nic, FlowPlan::Flow* flow) const {
  uint32_t hops = 0;
  flow->path[hops++] = Nic(from_node, from_nic, false);
  if (LeafOf(from_node) != LeafOf(to_node)) {
    flow->path[hops++] = Uplink(LeafOf(from_node), false);
    flow->path[hops++] = Uplink(LeafOf(to_node), true);
  }
  flow->path[hops++] = Nic(to_node, to_nic, true);
  flow->hops = hops;
}

}  // namespace vrank::graph
