// Speed of flows that share links, in starts and ends of flows per second, on one core.
//
// 256 ranks in 32 nodes of 8, on leaves of 8 nodes that are two times oversubscribed:
//   all_to_all           every rank to every other one, at once: a collective
//   all_to_all/staggered 255 rounds of transfers, each rank at its own times, with
//   sizes
//                        that differ: most instants have one flow
//   all_to_all/sizes     64 ranks, all at once, with sizes that differ: every end is an
//                        instant of its own, and changes the rates of many

#include <memory>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "graph/flow/topology.h"

namespace vrank::graph {
namespace {

constexpr int32_t kRanks = 256;

Topology FatTree() {
  TopologyOptions options;
  options.ranks = kRanks;
  options.nodes_per_leaf = 8;
  options.port_gbs = 363;
  options.nic_gbs = 48.5;
  options.oversubscription = 2;
  return Topology(options);
}

FlowPlan::Flow FlowOf(const Topology& topology, int32_t from, int32_t to,
                      double bytes) {
  FlowPlan::Flow flow;
  flow.bytes = bytes;
  topology.Route(from, to, &flow);
  return flow;
}

// Runs what `start` starts, to the end.
template <class Start>
void Run(benchmark::State& state, const Start& start) {
  const Topology topology = FatTree();
  uint64_t events = 0, solves = 0, looked_at = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto simulation = std::make_unique<FlowSimulation>();
    topology.AddLinks(simulation.get());
    std::vector<FlowSimulation::Ended> ended;
    state.ResumeTiming();
    start(topology, simulation.get());
    while (simulation->Advance(&ended))
      ended.clear();
    events += simulation->events();
    solves = simulation->solves();
    looked_at = simulation->looked_at();
    state.PauseTiming();
    simulation.reset();
    state.ResumeTiming();
  }
  state.counters["solves"] = static_cast<double>(solves);
  state.counters["looked_at"] = static_cast<double>(looked_at);
  state.SetItemsProcessed(static_cast<int64_t>(events));
}

void BM_AllToAll(benchmark::State& state, bool sizes) {
  const Topology topology = FatTree();
  const int32_t ranks = sizes ? 64 : kRanks;
  std::mt19937_64 random(7);
  FlowPlan plan;
  plan.alone_ns = 10'000;
  for (int32_t from = 0; from < ranks; ++from) {
    for (int32_t to = 0; to < ranks; ++to) {
      const double bytes =
          sizes ? 50'000 + static_cast<double>(random() % 100'000) : 100'000;
      if (from != to)
        plan.flows.push_back(FlowOf(topology, from, to, bytes));
    }
  }
  Run(state, [&plan](const Topology&, FlowSimulation* simulation) {
    simulation->Start(0, 0, 0, &plan);
  });
}
BENCHMARK_CAPTURE(BM_AllToAll, equal, false)
    ->Name("all_to_all")
    ->Unit(benchmark::kMillisecond);

BENCHMARK_CAPTURE(BM_AllToAll, sizes, true)
    ->Name("all_to_all/sizes")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

void BM_Staggered(benchmark::State& state) {
  const Topology topology = FatTree();
  std::mt19937_64 random(7);
  struct One {
    FlowPlan plan;
    int64_t start_ns;
  };
  std::vector<One> all;
  for (int32_t round = 1; round < kRanks; ++round) {
    for (int32_t from = 0; from < kRanks; ++from) {
      One& one = all.emplace_back();
      one.plan.alone_ns = 2'000;
      one.plan.flows.push_back(
          FlowOf(topology, from, (from + round) % kRanks,
                 50'000 + static_cast<double>(random() % 100'000)));
      one.start_ns = round * 3'000 + static_cast<int64_t>(random() % 6'000);
    }
  }
  Run(state, [&all](const Topology&, FlowSimulation* simulation) {
    for (size_t i = 0; i < all.size(); ++i)
      simulation->Start(i, i, all[i].start_ns, &all[i].plan);
  });
}
BENCHMARK(BM_Staggered)
    ->Name("all_to_all/staggered")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
