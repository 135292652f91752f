// Rates against closed forms, and against water-filling in small steps of thought: all
// open flows grow together until a cap or a link stops some of them.

#include "graph/flow/max_min.h"

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

struct PlainFlow {
  std::vector<uint32_t> path;
  double cap;
};

// Quadratic, from scratch, without any of MaxMin's ideas.
std::map<uint32_t, double> WaterFilling(const std::vector<double>& capacities,
                                        const std::map<uint32_t, PlainFlow>& flows) {
  std::map<uint32_t, double> rates;
  std::map<uint32_t, bool> open;
  for (const auto& [number, flow] : flows) {
    rates[number] = 0;
    open[number] = true;
  }
  for (size_t left = flows.size(); left != 0;) {
    double step = 1e300;
    std::vector<double> rest = capacities;
    std::vector<int> growing(capacities.size(), 0);
    for (const auto& [number, flow] : flows) {
      for (const uint32_t link : flow.path) {
        rest[link] -= rates[number];
        growing[link] += open[number];
      }
      if (open[number])
        step = std::min(step, flow.cap - rates[number]);
    }
    for (size_t link = 0; link < rest.size(); ++link) {
      if (growing[link] != 0)
        step = std::min(step, rest[link] / growing[link]);
    }
    for (const auto& [number, flow] : flows) {
      if (open[number])
        rates[number] += step;
    }
    for (const auto& [number, flow] : flows) {
      if (!open[number])
        continue;
      bool stopped = rates[number] >= flow.cap * (1 - 1e-12);
      for (const uint32_t link : flow.path)
        stopped |= rest[link] - growing[link] * step <= capacities[link] * 1e-12;
      if (stopped) {
        open[number] = false;
        --left;
      }
    }
  }
  return rates;
}

TEST(MaxMinTest, SharesOneLinkEqually) {
  MaxMin network;
  const std::vector<uint32_t> path = {network.AddLink(30)};
  const uint32_t a = network.Add(path, 100), b = network.Add(path, 100);
  const uint32_t slow = network.Add(path, 4);
  network.Solve();
  // (30 - 4) / 2
  EXPECT_DOUBLE_EQ(network.rate(a), 13);
  EXPECT_DOUBLE_EQ(network.rate(b), 13);
  EXPECT_DOUBLE_EQ(network.rate(slow), 4);
  EXPECT_EQ(network.bottleneck(slow), MaxMin::kOwnCap);
  EXPECT_EQ(network.bottleneck(a), path[0]);
  network.Remove(b);
  network.Solve();
  EXPECT_DOUBLE_EQ(network.rate(a), 26);
}

// One flow over all n links and one on each: all get half, whatever n.
TEST(MaxMinTest, GivesEveryFlowOfAParkingLotHalf) {
  MaxMin network;
  std::vector<uint32_t> path;
  for (size_t i = 0; i < MaxMin::kMaxHops; ++i)
    path.push_back(network.AddLink(8));
  const uint32_t whole = network.Add(path, 100);
  std::vector<uint32_t> crossing;
  for (const uint32_t link : path)
    crossing.push_back(network.Add(std::vector{link}, 100));
  network.Solve();
  EXPECT_DOUBLE_EQ(network.rate(whole), 4);
  for (const uint32_t flow : crossing)
    EXPECT_DOUBLE_EQ(network.rate(flow), 4);
  // Two more on the first link: thirds... quarters there, and the others take the rest.
  const uint32_t extra = network.Add(std::vector{path[0]}, 100);
  network.Add(std::vector{path[0]}, 100);
  network.Solve();
  EXPECT_DOUBLE_EQ(network.rate(whole), 2);
  EXPECT_DOUBLE_EQ(network.rate(extra), 2);
  EXPECT_DOUBLE_EQ(network.rate(crossing[0]), 2);
  EXPECT_DOUBLE_EQ(network.rate(crossing[1]), 6);
}

// A flow that leaves gives to one, which takes from the next: 1, 2, 3 on links in a
// row.
TEST(MaxMinTest, PassesAChangeOnAlongAChain) {
  MaxMin network;
  const uint32_t first = network.AddLink(10), second = network.AddLink(12);
  const uint32_t a = network.Add(std::vector{first}, 100);
  const uint32_t b = network.Add(std::vector{first, second}, 100);
  const uint32_t c = network.Add(std::vector{second}, 100);
  network.Solve();
  EXPECT_DOUBLE_EQ(network.rate(a), 5);
  EXPECT_DOUBLE_EQ(network.rate(b), 5);
  EXPECT_DOUBLE_EQ(network.rate(c), 7);
  network.Remove(a);
  network.Solve();
  EXPECT_DOUBLE_EQ(network.rate(b), 6);
  EXPECT_DOUBLE_EQ(network.rate(c), 6);
}

TEST(MaxMinTest, DoesNotLookFarFromAChange) {
  MaxMin network;
  std::vector<std::vector<uint32_t>> pairs;
  for (int i = 0; i < 100; ++i) {
    pairs.push_back({network.AddLink(10)});
    network.Add(pairs.back(), 100);
    network.Add(pairs.back(), 100);
  }
  network.Solve();
  EXPECT_EQ(network.changed().size(), 200u);
  network.Add(pairs[7], 100);
  network.Solve();
  EXPECT_EQ(network.changed().size(), 3u);
  EXPECT_LE(network.looked_at(), 4u);
}

struct RandomShape {
  int links, most_hops;
  double capped;  // share of flows with a cap that can matter
};

class MaxMinRandomTest : public testing::TestWithParam<RandomShape> {};

TEST_P(MaxMinRandomTest, EqualsWaterFillingAfterEveryChange) {
  const RandomShape shape = GetParam();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    MaxMin network;
    std::vector<double> capacities;
    for (int i = 0; i < shape.links; ++i) {
      // Few values, so that ties are frequent.
      capacities.push_back(1 + static_cast<double>(random() % 4));
      network.AddLink(capacities.back());
    }
    std::map<uint32_t, PlainFlow> flows;
    for (int change = 0; change < 60; ++change) {
      for (uint64_t several = 1 + random() % 3; several != 0; --several) {
        if (!flows.empty() && random() % 5 < 2) {
          const auto victim =
              std::next(flows.begin(), static_cast<int64_t>(random() % flows.size()));
          network.Remove(victim->first);
          flows.erase(victim);
          continue;
        }
        PlainFlow flow;
        for (uint64_t hops = 1 + random() % static_cast<uint64_t>(shape.most_hops);
             hops != 0; --hops) {
          const auto link = static_cast<uint32_t>(random() % capacities.size());
          if (std::find(flow.path.begin(), flow.path.end(), link) == flow.path.end())
            flow.path.push_back(link);
        }
        const bool capped = static_cast<double>(random() % 1000) < shape.capped * 1000;
        flow.cap = capped ? 0.1 * static_cast<double>(1 + random() % 20) : 1000;
        flows[network.Add(flow.path, flow.cap)] = flow;
      }
      network.Solve();
      const auto expected = WaterFilling(capacities, flows);
      for (const auto& [number, rate] : expected)
        ASSERT_NEAR(network.rate(number), rate, 1e-7 * rate)
            << "seed " << seed << ", change " << change << ", flow " << number;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaxMinRandomTest,
                         testing::Values(RandomShape{3, 2, 0}, RandomShape{6, 4, 0.3},
                                         RandomShape{20, 6, 0.5},
                                         RandomShape{12, 2, 0.1}));

}  // namespace
}  // namespace vrank::graph
