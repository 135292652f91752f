// What a large communicator costs the emulator: joining one of thousands of ranks, and
// splitting it into groups of eight. One rank is real, the others follow it, as in a
// job on a machine without GPUs.
//
// `peak_mib`: by how much the process has grown at most, the ranks themselves included.

#include <sys/resource.h>

#include <cstdint>
#include <memory>

#include <benchmark/benchmark.h>

#include "graph/membership/group_hint.h"
#include "graph/membership/membership_inference.h"
#include "graph/replay/engine.h"
#include "graph/replay/silent_observer.h"

namespace vrank::graph {
namespace {

class ConstantNetwork : public NetworkModel {
 public:
  Cost Collective(const CollectiveCall&, std::span<const int32_t>) const override {
    return {Duration::Microseconds(20)};
  }
  Cost Transfer(uint64_t, int32_t, int32_t) const override {
    return {Duration::Microseconds(10)};
  }
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 0; }
  Cost Creation(std::span<const int32_t>) const override {
    return {Duration::Microseconds(100)};
  }
};

void AppendCreation(Program* program, uint32_t number, const Creation& call) {
  Op op;
  op.kind = OpKind::kCreateCommunicator;
  op.a = number;
  op.b = program->AddCreation(call);
  program->Append(op);
}

double PeakMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// `splits`: how often the communicator of all ranks is split into groups of eight.
void Run(benchmark::State& state, int splits) {
  constexpr uint32_t kGroup = 8;
  const auto ranks = static_cast<int32_t>(state.range(0));
  const Layout layout = *Layout::Parse("tp=8,dp=" + std::to_string(ranks / 8), ranks);
  Program program(true);
  Creation init;
  init.ranks = static_cast<uint32_t>(ranks);
  AppendCreation(&program, 1, init);
  Creation split;
  split.parent = 1;
  std::vector<GroupHint> hints;
  for (int i = 0; i < splits; ++i) {
    AppendCreation(&program, static_cast<uint32_t>(2 + i), split);
    hints.push_back(*ParseGroupHint("world:" + std::to_string(i) + "=tp", layout));
  }
  program.Close();
  const ConstantNetwork network;
  SilentObserver observer;
  const double before = PeakMib();
  for (auto _ : state) {
    MembershipInference membership(layout, {0}, hints);
    Engine engine({}, &network, &membership, &observer);
    engine.AddRank(0, &program, {});
    for (int32_t rank = 1; rank < ranks; ++rank)
      engine.AddRank(rank, &program, {.follower = true, .leader = 0});
    if (!engine.Run().ok() || !engine.Finished())
      state.SkipWithError("the run did not finish");
  }
  state.counters["peak_mib"] = PeakMib() - before;
  state.counters["groups"] = static_cast<double>(splits * ranks / kGroup);
}

void BM_Join(benchmark::State& state) {
  Run(state, 0);
}
void BM_JoinAndSplit(benchmark::State& state) {
  Run(state, 1);
}
BENCHMARK(BM_Join)->Name("join")->Arg(8192)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_JoinAndSplit)
    ->Name("join_and_split")
    ->Arg(8192)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
