#include "graph/flow/cluster_flows.h"

#include <algorithm>
#include <map>

namespace vrank::graph {
namespace {

// The parent of `node` in a tree over `nodes` in which odd numbers are leaves; -1 of 0.
// Clearing the lowest set bit and setting the next one finds it, where that exists.
int32_t Parent(int32_t node, int32_t nodes) {
  if (node == 0)
    return -1;
  const int32_t bit = node & -node;
  const int32_t up = (node ^ bit) | (bit << 1);
  return up < nodes ? up : node ^ bit;
}

}  // namespace

std::vector<std::pair<int32_t, int32_t>> DoubleTree(int32_t nodes) {
  std::vector<std::pair<int32_t, int32_t>> edges;
  for (int32_t node = 1; node < nodes; ++node)
    edges.emplace_back(Parent(node, nodes), node);
  // The second tree is the first one with leaves and inner nodes swapped: mirrored
  // where the number is even, shifted by one where it is odd.
  const auto swapped = [nodes](int32_t node) {
    return nodes % 2 == 0 ? nodes - 1 - node : (node + 1) % nodes;
  };
  for (int32_t node = 1; node < nodes; ++node)
    edges.emplace_back(swapped(Parent(node, nodes)), swapped(node));
  return edges;
}

std::vector<ClusterFlows::Node> ClusterFlows::NodesOf(std::span<const int32_t> members,
                                                      int64_t nics) const {
  std::map<int32_t, std::vector<int32_t>> by_node;
  for (const int32_t rank : members)
    by_node[topology_->NodeOf(rank)].push_back(rank);
  std::vector<Node> nodes;
  for (auto& [number, ranks] : by_node) {
    Node node{number, std::move(ranks), {}};
    const auto take = [&node, nics](int32_t nic) {
      if (static_cast<int64_t>(node.nics.size()) < nics &&
          std::find(node.nics.begin(), node.nics.end(), nic) == node.nics.end())
        node.nics.push_back(nic);
    };
    for (const int32_t rank : node.ranks)
      take(topology_->NicOf(rank));
    for (int32_t nic = 0; nic < topology_->nics_per_node(); ++nic)
      take(nic);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

void ClusterFlows::Between(const Node& from, const Node& to, double bytes,
                           FlowPlan* plan) const {
  for (size_t i = 0; i < from.nics.size(); ++i) {
    FlowPlan::Flow& flow = plan->flows.emplace_back();
    flow.bytes = bytes / static_cast<double>(from.nics.size());
    topology_->RouteNics(from.node, from.nics[i], to.node, to.nics[i], &flow);
  }
}

void ClusterFlows::Direct(int32_t from, int32_t to, double bytes,
                          FlowPlan* plan) const {
  FlowPlan::Flow& flow = plan->flows.emplace_back();
  flow.bytes = bytes;
  topology_->Route(from, to, &flow);
}

void ClusterFlows::Ring(const std::vector<Node>& nodes, double traffic,
                        FlowPlan* plan) const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const size_t count = node.ranks.size();
    const double share =
        nodes.size() == 1 ? 1
                          : static_cast<double>(count - 1) / static_cast<double>(count);
    for (size_t j = 0; count > 1 && j < count; ++j)
      Direct(node.ranks[j], node.ranks[(j + 1) % count], share * traffic, plan);
    if (nodes.size() > 1)
      Between(node, nodes[(i + 1) % nodes.size()], traffic, plan);
  }
}

void ClusterFlows::Tree(const std::vector<Node>& nodes, double traffic,
                        FlowPlan* plan) const {
  for (const auto& [parent, child] : DoubleTree(static_cast<int32_t>(nodes.size()))) {
    const Node& above = nodes[static_cast<size_t>(parent)];
    const Node& below = nodes[static_cast<size_t>(child)];
    Between(below, above, traffic / 4, plan);
    Between(above, below, traffic / 4, plan);
  }
}

void ClusterFlows::Chain(const Node& node, double traffic, FlowPlan* plan) const {
  for (size_t i = 1; i < node.ranks.size(); ++i) {
    Direct(node.ranks[i - 1], node.ranks[i], traffic / 2, plan);
    Direct(node.ranks[i], node.ranks[i - 1], traffic / 2, plan);
  }
}

// Out of one member's port and into another's: every port carries half each way.
void ClusterFlows::Switched(const Node& node, double traffic, FlowPlan* plan) const {
  const size_t count = node.ranks.size();
  for (size_t i = 0; i < count; ++i)
    Direct(node.ranks[i], node.ranks[(i + 1) % count], traffic / 2, plan);
}

std::vector<CollectivePiece> ClusterFlows::Rooted(
    const CollectiveCall& call, std::span<const int32_t> members,
    const AlphaBetaNetwork::Parts& parts) const {
  const auto size = static_cast<uint32_t>(members.size());
  const bool chain = call.operation == CollectiveKind::kBroadcast ||
                     call.operation == CollectiveKind::kReduce;
  const double bytes =
      chain ? parts.traffic : parts.traffic / static_cast<double>(size - 1);
  // A reduction's chain ends in its root, a broadcast's begins with it.
  const uint32_t first =
      call.operation == CollectiveKind::kReduce ? call.root + 1 : call.root;
  std::vector<CollectivePiece> pieces;
  for (uint32_t i = 1; i < size; ++i) {
    CollectivePiece& piece = pieces.emplace_back();
    piece.from = chain ? (first + i - 1) % size : call.root;
    piece.to = chain ? (first + i) % size : (call.root + i) % size;
    if (call.operation == CollectiveKind::kGather)
      std::swap(piece.from, piece.to);
    piece.plan.alone_ns = parts.transfer_ns;
    const int32_t from = members[piece.from], to = members[piece.to];
    if (topology_->NodeOf(from) == topology_->NodeOf(to) || !chain) {
      Direct(from, to, bytes, &piece.plan);
    } else {
      const std::vector<Node> nodes = NodesOf(std::array{from, to}, parts.nics);
      const bool ordered = nodes[0].node == topology_->NodeOf(from);
      Between(nodes[ordered ? 0 : 1], nodes[ordered ? 1 : 0], bytes, &piece.plan);
    }
  }
  return pieces;
}

std::vector<CollectivePiece> ClusterFlows::Collective(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  if (members.size() <= 1)
    return {};
  const AlphaBetaNetwork::Parts parts = network_->PartsOf(call, members);
  switch (call.operation) {
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return Rooted(call, members, parts);
    default:
      break;
  }
  std::vector<CollectivePiece> pieces(1);
  FlowPlan& plan = pieces[0].plan;
  plan.alone_ns = parts.transfer_ns;
  if (call.operation == CollectiveKind::kAllToAll) {
    const double bytes = parts.traffic / static_cast<double>(members.size() - 1);
    for (const int32_t from : members) {
      for (const int32_t to : members) {
        if (from != to)
          Direct(from, to, bytes, &plan);
      }
    }
    return pieces;
  }
  const std::vector<Node> nodes = NodesOf(members, parts.nics);
  if (parts.shape != TREE && !parts.reduced_in_switch) {
    Ring(nodes, parts.traffic, &plan);
    return pieces;
  }
  Tree(nodes, parts.traffic, &plan);  // of one node: no edges
  for (const Node& node : nodes) {
    if (parts.reduced_in_switch)
      Switched(node, parts.traffic, &plan);
    else
      Chain(node, parts.traffic, &plan);
  }
  return pieces;
}

FlowPlan ClusterFlows::Transfer(uint64_t bytes, int32_t from, int32_t to) const {
  FlowPlan plan;
  plan.alone_ns = network_->TransferNs(bytes, from, to);
  if (from != to)
    Direct(from, to, static_cast<double>(bytes), &plan);
  return plan;
}

}  // namespace vrank::graph
