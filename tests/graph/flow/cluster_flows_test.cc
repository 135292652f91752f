#include "graph/flow/cluster_flows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "graph/models/cluster.h"

namespace vrank::graph {
namespace {

ClusterDescription Cluster(const std::string& name) {
  auto cluster = LoadCluster(name, VRANK_DATA_DIR);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *std::move(cluster);
}

std::vector<int32_t> Ranks(int32_t count, int32_t stride = 1) {
  std::vector<int32_t> ranks(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i)
    ranks[static_cast<size_t>(i)] = i * stride;
  return ranks;
}

CollectiveCall Call(CollectiveKind kind, uint64_t count) {
  CollectiveCall call;
  call.operation = kind;
  call.type = ElementType::kFloat32;
  call.count = count;
  return call;
}

// When the last flow of all pieces ends if they start at 0, and what the model says.
std::pair<int64_t, int64_t> Alone(const ClusterFlows& flows, const CollectiveCall& call,
                                  const std::vector<int32_t>& members) {
  FlowSimulation simulation;
  flows.AddLinks(&simulation);
  const std::vector<CollectivePiece> pieces = flows.Collective(call, members);
  for (size_t i = 0; i < pieces.size(); ++i)
    simulation.Start(i, i, 0, &pieces[i].plan);
  std::vector<FlowSimulation::Ended> ended;
  while (simulation.Advance(&ended)) {
  }
  EXPECT_FALSE(ended.empty());
  return {ended.back().end_ns, pieces[0].plan.alone_ns};
}

constexpr CollectiveKind kKinds[] = {
    CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast,
    CollectiveKind::kReduce,        CollectiveKind::kAllToAll,
    CollectiveKind::kGather,        CollectiveKind::kScatter};

TEST(ClusterFlowsTest, TakeWhatTheModelSaysWhereAnOperationIsAlone) {
  for (const char* name : {"hgx-h100-ib400", "hgx-a100-ib200", "hgx-b200-ib400"}) {
    const AlphaBetaNetwork network(Cluster(name));
    const Topology topology = Topology::Of(network.cluster(), 64);
    const ClusterFlows flows(&network, &topology);
    for (const CollectiveKind kind : kKinds) {
      for (const uint64_t count : {1ull, 10'000ull, 1'000'000ull, 100'000'000ull}) {
        for (const auto& members :
             {Ranks(2), Ranks(8), Ranks(5), Ranks(64), Ranks(8, 8), Ranks(6, 8),
              Ranks(32, 2), Ranks(16, 4), Ranks(9)}) {
          const auto [ns, model_ns] = Alone(flows, Call(kind, count), members);
          EXPECT_EQ(ns, model_ns) << name << " " << Name(kind) << " " << count << " of "
                                  << members.size() << " by " << members[1];
        }
      }
    }
  }
}

TEST(ClusterFlowsTest, SlowDownWhereTheSpineIsOversubscribed) {
  ClusterDescription cluster = Cluster("hgx-h100-ib400");
  cluster.mutable_fabric()->set_nodes_per_leaf(4);
  cluster.mutable_fabric()->set_oversubscription(4);
  const AlphaBetaNetwork network(cluster);
  const Topology topology = Topology::Of(network.cluster(), 64);
  const ClusterFlows flows(&network, &topology);
  // Each of 8 NICs of 4 nodes sends to half of the world through a leaf whose links up
  // carry a quarter of what they do. Expectation: (bytes that leave a leaf) / capacity.
  const uint64_t count = 1'000'000;
  const double bytes = 4.0 * count * 32 * 32;
  const double capacity = 8 * 4 * 48.5 / 4;
  const auto [ns, model_ns] =
      Alone(flows, Call(CollectiveKind::kAllToAll, count), Ranks(64));
  EXPECT_NEAR(static_cast<double>(ns), bytes / capacity, 10);
  EXPECT_GT(ns, model_ns);
  // Within a leaf nothing is shared.
  const auto [near_ns, near_model_ns] =
      Alone(flows, Call(CollectiveKind::kAllToAll, count), Ranks(32));
  EXPECT_EQ(near_ns, near_model_ns);
}

TEST(ClusterFlowsTest, ShareANicAmongTransfers) {
  const AlphaBetaNetwork network(Cluster("hgx-h100-ib400"));
  const Topology topology = Topology::Of(network.cluster(), 16);
  const ClusterFlows flows(&network, &topology);
  FlowSimulation simulation;
  flows.AddLinks(&simulation);
  // Two transfers out of one NIC, one out of another: 48.5 bytes per ns each.
  const FlowPlan first = flows.Transfer(48'500'000, 0, 8);
  const FlowPlan second = flows.Transfer(48'500'000, 0, 9);
  const FlowPlan third = flows.Transfer(48'500'000, 1, 10);
  simulation.Start(0, 0, 0, &first);
  simulation.Start(1, 1, 0, &second);
  simulation.Start(2, 2, 0, &third);
  std::vector<FlowSimulation::Ended> ended;
  while (simulation.Advance(&ended)) {
  }
  std::map<uint64_t, int64_t> ends;
  for (const auto& one : ended)
    ends[one.key] = one.end_ns;
  EXPECT_EQ(ends[0], 2'000'000);
  EXPECT_EQ(ends[1], 2'000'000);
  EXPECT_EQ(ends[2], 1'000'000);
  const auto slowest =
      std::max_element(simulation.delay_ns().begin(), simulation.delay_ns().end());
  EXPECT_EQ(
      topology.LinkName(static_cast<uint32_t>(slowest - simulation.delay_ns().begin())),
      "node 0 NIC 0 out");
}

TEST(ClusterFlowsTest, BuildsTwoTreesInWhichNoNodeIsTwiceInside) {
  for (int32_t nodes = 2; nodes < 70; ++nodes) {
    const auto edges = DoubleTree(nodes);
    ASSERT_EQ(edges.size(), 2 * static_cast<size_t>(nodes - 1));
    std::vector<std::set<int32_t>> inside(2);
    for (size_t tree = 0; tree < 2; ++tree) {
      std::vector<int32_t> parents(static_cast<size_t>(nodes), -1), children = parents;
      std::fill(children.begin(), children.end(), 0);
      const size_t first = tree * static_cast<size_t>(nodes - 1);
      for (size_t i = first; i < first + static_cast<size_t>(nodes - 1); ++i) {
        EXPECT_EQ(parents[static_cast<size_t>(edges[i].second)], -1);
        parents[static_cast<size_t>(edges[i].second)] = edges[i].first;
        EXPECT_LE(++children[static_cast<size_t>(edges[i].first)], 2);
        inside[tree].insert(edges[i].first);
      }
      EXPECT_EQ(std::count(parents.begin(), parents.end(), -1), 1) << nodes;
    }
    for (const int32_t node : inside[0])
      EXPECT_TRUE(inside[1].count(node) == 0 || nodes % 2 != 0) << node << "/" << nodes;
  }
}

}  // namespace
}  // namespace vrank::graph
