// Speed of the incremental engine, in ops per second of one core.
//
// known: every input is known when an op is issued. queued: all ops wait behind one
// receive, so each is put into a lane queue and executed from there. spmd: the shape of
// a training job with 16 leaders and their followers.

#include <benchmark/benchmark.h>

#include "bench/replay/spmd_job.h"
#include "graph/replay/engine.h"
#include "graph/replay/fold_replay.h"

namespace vrank::graph {
namespace {

class ConstantNetwork : public NetworkModel {
 public:
  Cost Collective(const CollectiveCall&, std::span<const int32_t>) const override {
    return {Duration::Microseconds(80)};
  }
  Cost Transfer(uint64_t, int32_t, int32_t) const override {
    return {Duration::Microseconds(200)};
  }
  uint64_t TransferCreditBytes(int32_t, int32_t) const override { return 4 << 20; }
  Cost Creation(std::span<const int32_t>) const override {
    return {Duration::Milliseconds(1)};
  }
};

class Pair : public Membership {
 public:
  absl::StatusOr<InitAnswer> Init(int32_t rank, const Creation&, bool) override {
    return InitAnswer{"pair", {0, 1}, static_cast<uint32_t>(rank)};
  }
  absl::StatusOr<std::vector<SplitGroup>> Split(std::string_view, uint32_t,
                                                std::span<const SplitMember>) override {
    return absl::UnimplementedError("the pair is never split");
  }
};

void Append(Program& program, OpKind kind, uint32_t lane, uint32_t a = 0,
            uint32_t b = 0) {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.host_ns = 2500;
  op.value = kind == OpKind::kWork ? 10'000 : 0;
  op.launch = kind == OpKind::kWork;
  op.a = a;
  op.b = b;
  program.Append(op);
}

// Kernels on two streams with an event between them after every eighth.
void AppendKernels(Program& program, int64_t ops) {
  for (int64_t i = 0; i < ops; ++i) {
    if (i % 8 == 6)
      Append(program, OpKind::kRecordToken, 1, 1);
    else if (i % 8 == 7)
      Append(program, OpKind::kWaitToken, 2, 1);
    else
      Append(program, OpKind::kWork, i % 8 == 5 ? 2 : 1);
  }
}

void BM_Known(benchmark::State& state) {
  Program program(true);
  AppendKernels(program, state.range(0));
  program.Close();
  const ConstantNetwork network;
  Pair membership;
  SilentObserver observer;
  for (auto _ : state) {
    Engine engine({}, &network, &membership, &observer);
    engine.AddRank(0, &program, {});
    if (!engine.Run().ok() || !engine.Finished())
      state.SkipWithError("the run did not finish");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Known)->Name("known")->Arg(2'000'000);

// Rank 0 issues everything behind a receive; rank 1 sends at the end.
void BM_Queued(benchmark::State& state) {
  const ConstantNetwork network;
  Pair membership;
  SilentObserver observer;
  Program receiver(true), sender(true);
  for (Program* program : {&receiver, &sender}) {
    Append(*program, OpKind::kCreateCommunicator, 0, 1, program->AddCreation({}));
    const bool send = program == &sender;
    Append(*program, OpKind::kTransfers, 1, 1,
           program->AddTransfers({{8 << 20, send ? 0u : 1u, send}}));
  }
  AppendKernels(receiver, state.range(0));
  receiver.Close();
  sender.Close();
  EngineOptions options;
  options.launch_queue_depth = 0xffff;
  for (auto _ : state) {
    Engine engine(options, &network, &membership, &observer);
    engine.AddRank(1, &sender, {});
    engine.AddRank(0, &receiver, {});
    if (!engine.Run().ok() || !engine.Finished())
      state.SkipWithError("the run did not finish");
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
// Within the launch queue's depth, so that all of it waits at once.
BENCHMARK(BM_Queued)->Name("queued")->Arg(60'000);

void BM_Spmd(benchmark::State& state) {
  SpmdShape shape;
  shape.micro_batches = static_cast<uint32_t>(state.range(0));
  SpmdJob job(shape);
  const ConstantNetwork network;
  SilentObserver observer;
  for (auto _ : state) {
    Engine engine({}, &network, &job, &observer);
    job.AddRanks(engine);
    if (const absl::Status status = engine.Run(); !status.ok() || !engine.Finished())
      state.SkipWithError("the run did not finish");
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(job.ops()));
}
BENCHMARK(BM_Spmd)
    ->Name("spmd_1024_ranks")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

// The same job, one rank of each colour played; resolving and colouring included.
void BM_Folded(benchmark::State& state) {
  SpmdShape shape;
  shape.micro_batches = static_cast<uint32_t>(state.range(0));
  SpmdJob job(shape);
  const ConstantNetwork network;
  uint32_t colours = 0;
  for (auto _ : state) {
    const auto resolved = ResolveCommunicators(job.Ranks(), &job);
    if (!resolved.ok()) {
      state.SkipWithError("the communicators could not be resolved");
      break;
    }
    const auto replay = ReplayFolded(*resolved, network, {});
    if (!replay.ok()) {
      state.SkipWithError("the run did not finish");
      break;
    }
    colours = (*replay)->quotient().colouring().colours;
  }
  state.counters["colours"] = colours;
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(job.ops()));
}
BENCHMARK(BM_Folded)
    ->Name("spmd_1024_ranks_folded")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
