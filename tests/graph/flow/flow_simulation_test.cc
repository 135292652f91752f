#include "graph/flow/flow_simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::graph {
namespace {

FlowPlan OneFlow(std::vector<uint32_t> path, double bytes, int64_t alone_ns) {
  FlowPlan plan;
  plan.alone_ns = alone_ns;
  FlowPlan::Flow flow;
  flow.hops = static_cast<uint32_t>(path.size());
  std::copy(path.begin(), path.end(), flow.path.begin());
  flow.bytes = bytes;
  plan.flows.push_back(flow);
  return plan;
}

std::map<uint64_t, int64_t> EndsOf(FlowSimulation* simulation) {
  std::map<uint64_t, int64_t> ends;
  std::vector<FlowSimulation::Ended> ended;
  int64_t before = -1;
  while (simulation->Advance(&ended)) {
    for (const FlowSimulation::Ended& one : ended) {
      EXPECT_GE(one.end_ns, before);
      before = one.end_ns;
      ends[one.key] = std::max(ends[one.key], one.end_ns);
    }
    ended.clear();
  }
  return ends;
}

TEST(FlowSimulationTest, EndsAFlowThatIsAloneWhenItWouldAlone) {
  FlowSimulation simulation;
  const uint32_t link = simulation.AddLink(10);
  // 1,000 bytes in 333 ns: no whole number of bytes per nanosecond.
  const FlowPlan plan = OneFlow({link}, 1000, 333);
  simulation.Start(1, 1, 50, &plan);
  simulation.Start(2, 2, 383, &plan);
  const auto ends = EndsOf(&simulation);
  EXPECT_EQ(ends.at(1), 383);
  EXPECT_EQ(ends.at(2), 716);
  EXPECT_EQ(simulation.delayed(), 0u);
}

// The first has moved 400 of 1,000 bytes when the second comes: both have 5 bytes per
// nanosecond for 120 ns, then the second has all.
TEST(FlowSimulationTest, SlowsAFlowDownWhileAnotherShares) {
  FlowSimulation simulation;
  const uint32_t link = simulation.AddLink(10);
  const FlowPlan plan = OneFlow({link}, 1000, 100);
  simulation.Start(1, 1, 0, &plan);
  simulation.Start(2, 2, 40, &plan);
  const auto ends = EndsOf(&simulation);
  EXPECT_EQ(ends.at(1), 160);
  EXPECT_EQ(ends.at(2), 200);
  EXPECT_EQ(simulation.delayed(), 2u);
  EXPECT_EQ(simulation.delay_ns()[link], 60 + 60);
}

TEST(FlowSimulationTest, StartsAFlowAtTheInstantAtWhichAnotherEnds) {
  FlowSimulation simulation;
  const uint32_t link = simulation.AddLink(10);
  const FlowPlan plan = OneFlow({link}, 1000, 100);
  simulation.Start(1, 1, 0, &plan);
  std::vector<FlowSimulation::Ended> ended;
  ASSERT_TRUE(simulation.Advance(&ended));
  ASSERT_EQ(ended.size(), 1u);
  simulation.Start(2, 2, ended[0].end_ns, &plan);
  EXPECT_EQ(EndsOf(&simulation).at(2), 200);
}

TEST(FlowSimulationTest, LetsWhatSharesNothingPass) {
  FlowSimulation simulation;
  const uint32_t link = simulation.AddLink(1);
  const FlowPlan shared = OneFlow({link}, 1000, 10), apart = OneFlow({}, 1000, 10);
  const FlowPlan instant = OneFlow({link}, 1000, 0);
  simulation.Start(1, 1, 0, &shared);
  simulation.Start(2, 2, 0, &apart);
  simulation.Start(3, 3, 5, &instant);
  const auto ends = EndsOf(&simulation);
  EXPECT_EQ(ends.at(1), 1000);
  EXPECT_EQ(ends.at(2), 10);
  EXPECT_EQ(ends.at(3), 5);
}

// Random flows on random links, against a simulation that solves from scratch with a
// fresh MaxMin at every instant.
TEST(FlowSimulationTest, EqualsASimulationFromScratch) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    struct Plain {
      FlowPlan plan;
      int64_t start;
      double left;
    };
    std::vector<double> capacities;
    FlowSimulation simulation;
    for (int i = 0; i < 5; ++i) {
      capacities.push_back(1 + static_cast<double>(random() % 5));
      simulation.AddLink(capacities.back());
    }
    std::vector<Plain> plain;
    for (int i = 0; i < 40; ++i) {
      std::vector<uint32_t> path = {static_cast<uint32_t>(random() % 5)};
      if (random() % 2 != 0)
        path.push_back((path[0] + 1) % 5);
      const double bytes = static_cast<double>(100 + random() % 1000);
      const auto alone = static_cast<int64_t>(20 + random() % 400);
      plain.push_back(
          {OneFlow(path, bytes, alone), static_cast<int64_t>(random() % 800), bytes});
    }
    for (size_t i = 0; i < plain.size(); ++i)
      simulation.Start(i, i, plain[i].start, &plain[i].plan);
    const auto ends = EndsOf(&simulation);

    double now = 0;
    while (true) {
      MaxMin network;
      for (const double capacity : capacities)
        network.AddLink(capacity);
      std::map<size_t, uint32_t> moving;
      double next = 1e300;
      for (size_t i = 0; i < plain.size(); ++i) {
        const auto start = static_cast<double>(plain[i].start);
        if (plain[i].left <= 0)
          continue;
        if (start > now) {
          next = std::min(next, start);
          continue;
        }
        const FlowPlan::Flow& flow = plain[i].plan.flows[0];
        moving[i] =
            network.Add(std::span(flow.path.data(), flow.hops),
                        flow.bytes / static_cast<double>(plain[i].plan.alone_ns));
      }
      network.Solve();
      for (const auto& [i, number] : moving)
        next = std::min(next, now + plain[i].left / network.rate(number));
      if (next > 1e200)
        break;
      for (const auto& [i, number] : moving) {
        plain[i].left -= network.rate(number) * (next - now);
        if (plain[i].left < 1e-6) {
          plain[i].left = 0;
          // Each instant before it was rounded up to a whole nanosecond.
          EXPECT_NEAR(static_cast<double>(ends.at(i)), next, 40) << seed;
          EXPECT_GE(ends.at(i), plain[i].start + plain[i].plan.alone_ns);
        }
      }
      now = next;
    }
    EXPECT_EQ(ends.size(), plain.size());
  }
}

}  // namespace
}  // namespace vrank::graph
