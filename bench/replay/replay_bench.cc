// Speed of both executors, in ops per second.
//
// Of the sweep, on a job of examples/gpt_trainer (--graph=FILE from `vrank build`; the
// others run without it):
//   unfolded/RANKSxNODES   every rank played, jitter on every work
//   what_if/RANKSxNODES    a what-if and its iteration times
// and of the incremental engine, on one core:
//
// known: every input is known when an op is issued. queued: all ops wait behind one
// receive, so each is put into a lane queue and executed from there. spmd: the shape of
// a training job with 16 leaders and their followers.

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bench/replay/gpt_job.h"
#include "bench/replay/spmd_job.h"
#include "graph/fold/replay.h"
#include "graph/replay/engine.h"
#include "graph/sweep/sweep.h"
#include "graph/what_if/edited_job.h"

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
  absl::StatusOr<InitAnswer> Init(const InitCaller& caller, const Creation&) override {
    return InitAnswer{"pair",
                      std::make_shared<const std::vector<int32_t>>(std::vector{0, 1}),
                      static_cast<uint32_t>(caller.rank)};
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

// What a case of the sweep is about; the rest is as in the headline.
struct SweepCase {
  const char* name;
  int32_t ranks = 8192;
  uint32_t threads = 1;
  uint32_t jitter = 20'000;
  bool ledgers = true, store_ends = false;
  // Programs of each rank's own; nullopt: those of its class.
  std::optional<GptJob::Differ> own_programs = std::nullopt;
  std::optional<VectorUnit> unit = std::nullopt;
};

void BM_Sweep(benchmark::State& state, GptJob& gpt, const SweepCase& what) {
  ResolvedJob job = gpt.Scaled(what.ranks, {what.jitter, 7});
  std::vector<std::unique_ptr<Program>> programs;
  if (what.own_programs)
    job = GptJob::Separate(job, *what.own_programs, &programs);
  SweepOptions options;
  options.threads = what.threads;
  options.unit = what.unit;
  options.ledgers = what.ledgers;
  options.store_ends = what.store_ends;
  const auto sweep = Sweep::Prepare(job, gpt.network(), options);
  if (!sweep.ok()) {
    state.SkipWithError(std::string(sweep.status().message()).c_str());
    return;
  }
  for (auto _ : state) {
    if (const absl::Status status = (*sweep)->Run(); !status.ok())
      state.SkipWithError(std::string(status.message()).c_str());
  }
  state.counters["bytes_per_rank"] =
      static_cast<double>((*sweep)->bytes()) / what.ranks;
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>((*sweep)->ops()));
}

// What `vrank replay` does where no rank differs: resolved before, then coloured and
// played.
void BM_FoldedGpt(benchmark::State& state, GptJob& gpt, int32_t ranks) {
  const ResolvedJob job = gpt.Scaled(ranks, {});
  const Colouring colouring = RefineColours(job, gpt.network());
  for (auto _ : state) {
    FoldedReplay replay(&job, colouring, &gpt.network(), {});
    if (!replay.Run().ok())
      state.SkipWithError("the run did not finish");
  }
  state.counters["colours"] = colouring.colours;
}
void BM_Colour(benchmark::State& state, GptJob& gpt, int32_t ranks) {
  const ResolvedJob job = gpt.Scaled(ranks, {});
  for (auto _ : state)
    benchmark::DoNotOptimize(RefineColours(job, gpt.network()));
}
void BM_Prepare(benchmark::State& state, GptJob& gpt, int32_t ranks) {
  const ResolvedJob job = gpt.Scaled(ranks, {20'000, 7});
  for (auto _ : state)
    benchmark::DoNotOptimize(Sweep::Prepare(job, gpt.network(), {}));
}

// One what-if after the other: edit, colour, replay, iteration times. One core.
void BM_WhatIfs(benchmark::State& state, GptJob& gpt, int32_t ranks) {
  const ResolvedJob job = gpt.Scaled(ranks, {});
  const auto is_iteration = [](const std::string& name) {
    return name.rfind("iteration", 0) == 0;
  };
  const EditableJob editable(&job, &gpt.network(), is_iteration, {});
  std::vector<WhatIf> edits = editable.Candidates(12);
  size_t next = 0;
  for (auto _ : state) {
    WhatIf& edit = edits[next++ % edits.size()];
    edit.factor += 1e-3;
    const auto edited = editable.Edit({edit});
    if (!edited.ok() || !editable.IterationTimes(*edited).ok()) {
      state.SkipWithError("a what-if failed");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}

void RegisterGpt(GptJob& gpt) {
  using Differ = GptJob::Differ;
  static const SweepCase kCases[] = {
      {"unfolded/8192x20000"},
      {"unfolded/65536x20000", 65536, 2},
      {"unfolded/8192x20000/two_threads", 8192, 2},
      {"unfolded/1024x20000", 1024},
      {"unfolded/times_only", 8192, 1, 20'000, false},
      {"unfolded/without_jitter", 8192, 1, 0},
      {"unfolded/ends_stored", 2048, 1, 20'000, true, true},
      {"unfolded/equal_programs", 1024, 1, 20'000, true, false, Differ::kNot},
      {"unfolded/own_programs", 1024, 1, 20'000, true, false, Differ::kInCosts},
      {"unfolded/own_works", 1024, 1, 20'000, true, false, Differ::kInWorks},
      {"unfolded/avx2", 8192, 1, 20'000, true, false, std::nullopt, VectorUnit::kAvx2},
      {"unfolded/scalar", 8192, 1, 20'000, true, false, std::nullopt,
       VectorUnit::kScalar},
  };
  for (const SweepCase& what : kCases) {
    benchmark::RegisterBenchmark(
        what.name,
        [&gpt, &what](benchmark::State& state) { BM_Sweep(state, gpt, what); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  // For bench/replay/plot_scaling: how cost grows with the ranks.
  static const auto scaling = [] {
    std::vector<std::pair<std::string, SweepCase>> cases;
    for (int32_t ranks = 1024; ranks <= 65536; ranks *= 2)
      cases.push_back({fmt::format("scaling/{}", ranks), {"", ranks}});
    return cases;
  }();
  for (const auto& [name, what] : scaling) {
    benchmark::RegisterBenchmark(name.c_str(), [&gpt,
                                                &what = what](benchmark::State& state) {
      BM_Sweep(state, gpt, what);
    })->Unit(benchmark::kMillisecond);
  }
  const auto add = [&gpt](const char* name, auto run) {
    benchmark::RegisterBenchmark(name, [&gpt, run](benchmark::State& state) {
      run(state, gpt, 8192);
    })->Unit(benchmark::kMillisecond);
  };
  add("folded/8192x20000", BM_FoldedGpt);
  add("folded/8192x20000/colouring", BM_Colour);
  add("unfolded/8192x20000/preparing", BM_Prepare);
  benchmark::RegisterBenchmark("what_if/1024x20000", [&gpt](benchmark::State& state) {
    BM_WhatIfs(state, gpt, 1024);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace vrank::graph

int main(int argc, char** argv) {
  std::unique_ptr<vrank::graph::GptJob> gpt;
  constexpr char kGraph[] = "--graph=", kData[] = "--data=";
  std::string graph, data = "data";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kGraph, sizeof kGraph - 1) == 0)
      graph = argv[i] + sizeof kGraph - 1;
    else if (std::strncmp(argv[i], kData, sizeof kData - 1) == 0)
      data = argv[i] + sizeof kData - 1;
    else
      argv[kept++] = argv[i];
  }
  if (!graph.empty()) {
    auto opened = vrank::graph::GptJob::Open(graph, data);
    if (!opened.ok()) {
      std::fprintf(stderr, "replay_bench: %s\n",
                   std::string(opened.status().message()).c_str());
      return 1;
    }
    gpt = *std::move(opened);
    vrank::graph::RegisterGpt(*gpt);
  }
  benchmark::Initialize(&kept, argv);
  if (benchmark::ReportUnrecognizedArguments(kept, argv))
    return 1;
  benchmark::RunSpecifiedBenchmarks();
}
