// Alpha-beta costs of collectives, transfers and communicator creation.

#include "graph/models/alpha_beta_network.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <absl/container/inlined_vector.h>

#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

ClusterOperation Operation(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return ALL_REDUCE;
    case CollectiveKind::kAllGather:
      return ALL_GATHER;
    case CollectiveKind::kReduceScatter:
      return REDUCE_SCATTER;
    case CollectiveKind::kBroadcast:
      return BROADCAST;
    case CollectiveKind::kReduce:
      return REDUCE;
    case CollectiveKind::kAllToAll:
      return ALL_TO_ALL;
    case CollectiveKind::kGather:
      return GATHER;
    case CollectiveKind::kScatter:
      return SCATTER;
  }
  return ALL_REDUCE;
}

// nccl-tests' size of a call: the buffer that holds the data of all members.
// `bytes`: count * element size of the call, of one member in the last rows.
double BufferBytes(CollectiveKind kind, double bytes, double n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return bytes;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return n * bytes;
  }
  return bytes;
}

// Bytes over the slowest link, as NCCL's bus bandwidth counts them (nccl-tests,
// doc/PERFORMANCE.md), and the member's own share `own_share` times more.
double BusTraffic(CollectiveKind kind, double bytes, double n, double own_share) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1 + own_share) / n * bytes;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return bytes;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return (n - 1 + own_share) * bytes;
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return (n - 1) * bytes;
  }
  return bytes;
}

// True where every member exchanges data of its own with each other one: what stays in
// a node takes no NIC, and the NICs of its neighbours are no help.
bool IsDirect(CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

// What an operation takes at most: 13 days. Counts and sizes come from files, too.
constexpr int64_t kMostNs = int64_t{1} << 50;

// 1e9 bytes/s is one byte per nanosecond.
int64_t NsOf(double bytes, double gbs) {
  return static_cast<int64_t>(
      std::min(std::ceil(bytes / gbs), static_cast<double>(kMostNs)));
}

int64_t FloorLog2(int64_t n) {
  return std::bit_width(static_cast<uint64_t>(n)) - 1;
}

// The share of a tree's traffic that the busiest node sends over its NICs. Each node is
// a leaf of one of the two trees and inside the other (NCCL, src/graph/trees.cc): it
// sends a quarter of the traffic up in each, and down to each child in one. Of two
// nodes each has one child.
double TreeShareOfNics(int64_t nodes) {
  return nodes == 2 ? .5 : 1;
}

bool IsLowLatency(const PointToPointLink& link, uint64_t bytes) {
  return link.ll_bytes() != 0 && bytes <= link.ll_bytes();
}

// NCCL v2.28.9, src/enqueue.cc, addP2pToPlan: channels double while a part is too
// large.
double TransferGbs(const PointToPointLink& link, uint64_t bytes) {
  if (IsLowLatency(link, bytes))
    return link.ll_gbs();
  if (link.channel_gbs() == 0)
    return link.gbs();
  double channels = link.channels();
  while (static_cast<double>(bytes) / channels >
             static_cast<double>(link.channel_bytes()) &&
         channels * link.channel_gbs() < link.gbs()) {
    channels *= 2;
  }
  return std::min(link.gbs(), channels * link.channel_gbs());
}

int64_t Scaled(int64_t ns, double factor) {
  return static_cast<int64_t>(std::min(std::round(static_cast<double>(ns) * factor),
                                       static_cast<double>(kMostNs)));
}

int64_t TransferMovingNs(const PointToPointLink& link, uint64_t bytes) {
  return NsOf(static_cast<double>(bytes), TransferGbs(link, bytes));
}

}  // namespace

AlphaBetaNetwork::AlphaBetaNetwork(const ClusterDescription& cluster)
    : cluster_(cluster), ranks_per_node_(RanksPerNode(cluster)), measured_(cluster_) {
  auto index = [](const LinkClass& link, Menu* menu) {
    for (const Algorithm& algorithm : link.algorithm()) {
      for (int operation : algorithm.operation()) {
        (*menu)[operation].push_back(&algorithm);
      }
    }
  };
  index(cluster_.inside(), &inside_);
  index(cluster_.between(), &between_);
}

AlphaBetaNetwork::Placement AlphaBetaNetwork::Place(
    std::span<const int32_t> members) const {
  // Mostly members stand in the order of their nodes: then runs are counted as they
  // come, and otherwise once they are sorted.
  absl::InlinedVector<int32_t, 64> sorted;
  if (!std::is_sorted(members.begin(), members.end())) {
    sorted.assign(members.begin(), members.end());
    std::sort(sorted.begin(), sorted.end());
    members = sorted;
  }
  Placement placement;
  placement.members = static_cast<int64_t>(members.size());
  placement.fewest_per_node = placement.members;
  for (size_t begin = 0; begin < members.size();) {
    const int32_t behind = (NodeOf(members[begin]) + 1) * ranks_per_node_;
    size_t end = begin;
    while (end < members.size() && members[end] < behind)
      ++end;
    ++placement.nodes;
    const auto here = static_cast<int64_t>(end - begin);
    placement.fewest_per_node = std::min(placement.fewest_per_node, here);
    placement.most_per_node = std::max(placement.most_per_node, here);
    begin = end;
  }
  return placement;
}

double AlphaBetaNetwork::NicsFor(CollectiveKind operation,
                                 const Placement& placement) const {
  const double nics = cluster_.nics_per_node();
  if (placement.nodes <= 1)
    return 0;
  if (operation == CollectiveKind::kAllToAll)  // of one member
    return std::min(1., nics / static_cast<double>(placement.most_per_node));
  if (IsDirect(operation))  // of the root
    return 1;
  return std::min(static_cast<double>(placement.fewest_per_node), nics);
}

int64_t AlphaBetaNetwork::MovingNs(const Algorithm& algorithm, CollectiveKind operation,
                                   double bytes, const Placement& placement) const {
  const double traffic = BusTraffic(
      operation, bytes, static_cast<double>(placement.members), algorithm.own_share());
  if (placement.nodes <= 1)
    return NsOf(traffic, algorithm.bus_gbs());
  const double nics_gbs = NicsFor(operation, placement) * cluster_.nic_gbs();
  if (IsDirect(operation)) {
    const double outside =
        static_cast<double>(placement.members - placement.fewest_per_node) * bytes;
    return NsOf(outside, std::min(algorithm.bus_gbs(), nics_gbs));
  }
  const double nic_traffic =
      algorithm.shape() == TREE ? TreeShareOfNics(placement.nodes) * traffic : traffic;
  return std::max(NsOf(traffic, algorithm.bus_gbs()), NsOf(nic_traffic, nics_gbs));
}

int64_t AlphaBetaNetwork::Price(const Algorithm& algorithm, CollectiveKind operation,
                                double bytes, const Placement& placement) const {
  const int64_t rounds = operation == CollectiveKind::kAllReduce ? 2 : 1;
  int64_t inside_steps = 0;
  int64_t between_steps = 0;
  switch (algorithm.shape()) {
    case RING:
      between_steps = rounds * (placement.nodes - 1);
      inside_steps = rounds * (placement.members - 1) - between_steps;
      break;
    case TREE:
      between_steps = rounds * FloorLog2(placement.nodes);
      inside_steps =
          rounds * ((placement.members + placement.nodes - 1) / placement.nodes - 1);
      break;
    case CONSTANT:
    default:
      break;
  }
  return algorithm.base_ns() + inside_steps * algorithm.inside_step_ns() +
         between_steps * algorithm.between_step_ns() +
         MovingNs(algorithm, operation, bytes, placement);
}

AlphaBetaNetwork::Choice AlphaBetaNetwork::Choose(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  const Placement placement = Place(members);
  const double bytes =
      static_cast<double>(call.count) * static_cast<double>(ElementBytes(call.type));
  const double buffer =
      BufferBytes(call.operation, bytes, static_cast<double>(placement.members));
  const Menu& menu = placement.nodes > 1 ? between_ : inside_;
  Choice best;
  for (const Algorithm* algorithm : menu[Operation(call.operation)]) {
    if (placement.fewest_per_node < algorithm->min_members_per_node() ||
        buffer < static_cast<double>(algorithm->min_bytes())) {
      continue;
    }
    const int64_t ns = Price(*algorithm, call.operation, bytes, placement);
    if (best.algorithm == nullptr || ns < best.ns) {  // the first one wins a tie
      best = {algorithm, ns};
    }
  }
  return best;
}

int64_t AlphaBetaNetwork::Measured(int64_t ns, const CollectiveCall& call,
                                   const Placement& placement) const {
  if (measured_.empty())
    return ns;
  const double buffer = BufferBytes(
      call.operation,
      static_cast<double>(call.count) * static_cast<double>(ElementBytes(call.type)),
      static_cast<double>(placement.members));
  return Scaled(ns, measured_.OfCollective(Operation(call.operation), placement.members,
                                           placement.nodes, buffer));
}

Cost AlphaBetaNetwork::Collective(const CollectiveCall& call,
                                  std::span<const int32_t> members) const {
  if (members.size() <= 1) {
    // NCCL copies within the device, or does nothing in place. The copy itself is not
    // priced: it is one launch, and the base of the cheapest algorithm stands for it.
    const Algorithm* first = inside_[Operation(call.operation)].front();
    return {Duration::Nanoseconds(first->base_ns()), Source::kModelled};
  }
  int64_t ns = Choose(call, members).ns;
  if (!measured_.empty())
    ns = Measured(ns, call, Place(members));
  return {Duration::Nanoseconds(ns), Source::kModelled};
}

AlphaBetaNetwork::Parts AlphaBetaNetwork::PartsOf(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  const Placement placement = Place(members);
  const Algorithm& algorithm = *Choose(call, members).algorithm;
  Parts parts;
  parts.shape = algorithm.shape();
  parts.reduced_in_switch = ReducesInSwitch(algorithm);
  const double bytes =
      static_cast<double>(call.count) * static_cast<double>(ElementBytes(call.type));
  parts.traffic = BusTraffic(call.operation, bytes, static_cast<double>(members.size()),
                             algorithm.own_share());
  parts.transfer_ns =
      Measured(MovingNs(algorithm, call.operation, bytes, placement), call, placement);
  parts.nics = static_cast<int64_t>(std::ceil(NicsFor(call.operation, placement)));
  return parts;
}

const std::string& AlphaBetaNetwork::AlgorithmName(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  return Choose(call, members).algorithm->name();
}

Cost AlphaBetaNetwork::Transfer(uint64_t bytes, int32_t from, int32_t to) const {
  const PointToPointLink& link = LinkOf(from, to);
  const int64_t latency_ns =
      IsLowLatency(link, bytes) ? link.ll_latency_ns() : link.latency_ns();
  return {Duration::Nanoseconds(
              Scaled(latency_ns + TransferMovingNs(link, bytes),
                     measured_.OfTransfer(NodeOf(from) == NodeOf(to), bytes))),
          Source::kModelled};
}

int64_t AlphaBetaNetwork::TransferNs(uint64_t bytes, int32_t from, int32_t to) const {
  return Scaled(TransferMovingNs(LinkOf(from, to), bytes),
                measured_.OfTransfer(NodeOf(from) == NodeOf(to), bytes));
}

uint64_t AlphaBetaNetwork::TransferCreditBytes(int32_t, int32_t) const {
  return cluster_.transfer_credit_bytes();
}

Cost AlphaBetaNetwork::Creation(std::span<const int32_t> members) const {
  const int64_t count = static_cast<int64_t>(members.size());
  // No public measurement stands behind these two numbers: assumed.
  return {Duration::Nanoseconds(cluster_.creation_base_ns() +
                                count * cluster_.creation_member_ns()),
          Source::kAssumed};
}

}  // namespace vrank::graph
