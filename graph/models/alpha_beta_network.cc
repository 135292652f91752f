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

// Bytes over the slowest link, as NCCL's bus bandwidth counts them (nccl-tests,
// doc/PERFORMANCE.md). `bytes`: count * element size of the call.
double BusTraffic(CollectiveKind kind, double bytes, double n) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n * bytes;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return bytes;
    // NCCL's count is per member here: the whole is n * bytes, of which (n-1)/n move.
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return (n - 1) * bytes;
  }
  return bytes;
}

// True where every member drives its own NIC with its own data, so that the NICs of its
// neighbours are no help.
bool UsesOneNic(CollectiveKind kind) {
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

}  // namespace

AlphaBetaNetwork::AlphaBetaNetwork(const ClusterDescription& cluster)
    : cluster_(cluster), ranks_per_node_(RanksPerNode(cluster)) {
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
    placement.fewest_per_node =
        std::min(placement.fewest_per_node, static_cast<int64_t>(end - begin));
    begin = end;
  }
  return placement;
}

int64_t AlphaBetaNetwork::NicsFor(CollectiveKind operation,
                                  const Placement& placement) const {
  if (placement.nodes <= 1)
    return 0;
  return UsesOneNic(operation)
             ? 1
             : std::min<int64_t>(placement.fewest_per_node, cluster_.nics_per_node());
}

double AlphaBetaNetwork::GbsOf(const Algorithm& algorithm, CollectiveKind operation,
                               const Placement& placement) const {
  const int64_t nics = NicsFor(operation, placement);
  return nics == 0 ? algorithm.bus_gbs()
                   : std::min(algorithm.bus_gbs(),
                              static_cast<double>(nics) * cluster_.nic_gbs());
}

int64_t AlphaBetaNetwork::Price(const Algorithm& algorithm, CollectiveKind operation,
                                double traffic, const Placement& placement) const {
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
  const double gbs = GbsOf(algorithm, operation, placement);
  return algorithm.base_ns() + inside_steps * algorithm.inside_step_ns() +
         between_steps * algorithm.between_step_ns() + NsOf(traffic, gbs);
}

AlphaBetaNetwork::Choice AlphaBetaNetwork::Choose(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  const Placement placement = Place(members);
  const double bytes =
      static_cast<double>(call.count) * static_cast<double>(ElementBytes(call.type));
  const double traffic =
      BusTraffic(call.operation, bytes, static_cast<double>(placement.members));
  const Menu& menu = placement.nodes > 1 ? between_ : inside_;
  Choice best;
  for (const Algorithm* algorithm : menu[Operation(call.operation)]) {
    if (placement.fewest_per_node < algorithm->min_members_per_node()) {
      continue;
    }
    const int64_t ns = Price(*algorithm, call.operation, traffic, placement);
    if (best.algorithm == nullptr || ns < best.ns) {  // the first one wins a tie
      best = {algorithm, ns};
    }
  }
  return best;
}

Cost AlphaBetaNetwork::Collective(const CollectiveCall& call,
                                  std::span<const int32_t> members) const {
  if (members.size() <= 1) {
    // NCCL copies within the device, or does nothing in place. The copy itself is not
    // priced: it is one launch, and the base of the cheapest algorithm stands for it.
    const Algorithm* first = inside_[Operation(call.operation)].front();
    return {Duration::Nanoseconds(first->base_ns()), Source::kModelled};
  }
  return {Duration::Nanoseconds(Choose(call, members).ns), Source::kModelled};
}

AlphaBetaNetwork::Parts AlphaBetaNetwork::PartsOf(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  const Placement placement = Place(members);
  const Algorithm& algorithm = *Choose(call, members).algorithm;
  Parts parts;
  parts.shape = algorithm.shape();
  parts.traffic = BusTraffic(
      call.operation,
      static_cast<double>(call.count) * static_cast<double>(ElementBytes(call.type)),
      static_cast<double>(members.size()));
  parts.transfer_ns = NsOf(parts.traffic, GbsOf(algorithm, call.operation, placement));
  parts.nics = NicsFor(call.operation, placement);
  return parts;
}

const std::string& AlphaBetaNetwork::AlgorithmName(
    const CollectiveCall& call, std::span<const int32_t> members) const {
  return Choose(call, members).algorithm->name();
}

Cost AlphaBetaNetwork::Transfer(uint64_t bytes, int32_t from, int32_t to) const {
  const LinkClass& link =
      NodeOf(from) == NodeOf(to) ? cluster_.inside() : cluster_.between();
  const PointToPointLink& lane = link.point_to_point();
  return {Duration::Nanoseconds(lane.latency_ns() +
                                NsOf(static_cast<double>(bytes), lane.gbs())),
          Source::kModelled};
}

int64_t AlphaBetaNetwork::TransferNs(uint64_t bytes, int32_t from, int32_t to) const {
  const LinkClass& link =
      NodeOf(from) == NodeOf(to) ? cluster_.inside() : cluster_.between();
  return NsOf(static_cast<double>(bytes), link.point_to_point().gbs());
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
