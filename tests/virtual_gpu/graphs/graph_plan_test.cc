// The layout of graphs on lanes, held against the graphs themselves.

#include "virtual_gpu/core/graph_plan.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace vrank::gpu {
namespace {

// The nodes that have ended when each node begins, if the plan's steps are obeyed and
// nothing else is.
std::map<const GraphNode*, std::set<const GraphNode*>> Before(const GraphPlan& plan) {
  std::vector<std::set<const GraphNode*>> lanes(plan.lanes), tokens(plan.tokens);
  std::map<const GraphNode*, std::set<const GraphNode*>> before;
  for (const GraphStep& step : plan.steps) {
    std::set<const GraphNode*>& lane = lanes[step.lane];
    switch (step.kind) {
      case GraphStep::Kind::kNode:
        before[step.node] = lane;
        lane.insert(step.node);
        break;
      case GraphStep::Kind::kRecord:
        tokens[step.token] = lane;
        break;
      case GraphStep::Kind::kWait:
        lane.insert(tokens[step.token].begin(), tokens[step.token].end());
        break;
    }
  }
  before[nullptr] = lanes[0];  // when the launching stream goes on
  return before;
}

std::set<const GraphNode*> Ancestors(const GraphNode* node) {
  std::set<const GraphNode*> found;
  std::vector<const GraphNode*> open{node};
  while (!open.empty()) {
    const GraphNode* at = open.back();
    open.pop_back();
    for (const GraphLink& link : at->before)
      if (found.insert(link.node).second)
        open.push_back(link.node);
  }
  return found;
}

TEST(GraphPlanTest, OrdersExactlyWhatTheGraphOrders) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Graph graph;
    const int count = 1 + static_cast<int>(random() % 24);
    const unsigned density = 1 + random() % 6;
    std::vector<GraphNode*> nodes;
    for (int i = 0; i < count; ++i)
      nodes.push_back(graph.Add(EmptyParameters{}));
    // Half of the graphs have edges against the order in which nodes were made.
    std::vector<GraphNode*> order = nodes;
    if (round % 2 == 1)
      std::shuffle(order.begin(), order.end(), random);
    for (int to = 1; to < count; ++to)
      for (int from = 0; from < to; ++from)
        if (random() % (density * 2) == 0)
          Graph::Connect(order[static_cast<size_t>(from)],
                         order[static_cast<size_t>(to)], {});
    GraphPlan plan;
    ASSERT_TRUE(MakePlan(graph, &plan));
    EXPECT_EQ(plan.nodes, static_cast<uint32_t>(count));
    auto before = Before(plan);
    EXPECT_EQ(before[nullptr].size(), nodes.size());
    for (const GraphNode* node : nodes)
      EXPECT_EQ(before[node], Ancestors(node)) << "round " << round;
  }
}

TEST(GraphPlanTest, ChainsNeedNoEdges) {
  Graph graph;
  GraphNode* last = graph.Add(EmptyParameters{});
  for (int i = 0; i < 100; ++i) {
    GraphNode* next = graph.Add(EmptyParameters{});
    Graph::Connect(last, next, {});
    last = next;
  }
  GraphPlan plan;
  ASSERT_TRUE(MakePlan(graph, &plan));
  EXPECT_EQ(plan.lanes, 1u);
  EXPECT_EQ(plan.tokens, 1u);
  EXPECT_EQ(plan.steps.size(), 102u);
}

TEST(GraphPlanTest, RepeatedForksUseTheSameLanes) {
  Graph graph;
  GraphNode* last = graph.Add(EmptyParameters{});
  for (int fork = 0; fork < 50; ++fork) {
    GraphNode* join = nullptr;
    std::vector<GraphNode*> branches;
    for (int i = 0; i < 4; ++i) {
      branches.push_back(graph.Add(EmptyParameters{}));
      Graph::Connect(last, branches.back(), {});
    }
    join = graph.Add(EmptyParameters{});
    for (GraphNode* branch : branches)
      Graph::Connect(branch, join, {});
    last = join;
  }
  GraphPlan plan;
  ASSERT_TRUE(MakePlan(graph, &plan));
  EXPECT_EQ(plan.lanes, 4u);
}

}  // namespace
}  // namespace vrank::gpu
