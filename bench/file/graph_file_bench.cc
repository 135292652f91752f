// Opening files: what a replay pays before it starts, and a build per slice.
//
// BM_OpenGraph maps a .vgraph file, checks its checksums and every index of every op.
// Target: >= 20 M ops/s on one core. The file is in the page cache, as it is in a
// second replay. BM_ReadTrace reads a .vtrace file, compressed or not, into rows; per
// row.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "graph/file/graph_file.h"
#include "graph/trace/trace_file.h"

namespace vrank::graph {
namespace {

// A file of this process's own, for as long as the object lives.
class File {
 public:
  explicit File(const char* ending)
      : path_(std::filesystem::temp_directory_path() /
              ("graph_file_bench." + std::to_string(getpid()) + ending)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Of eight ops five are kernels; the others are an edge and a collective.
std::unique_ptr<Program> SomeProgram(int64_t ops) {
  auto program = std::make_unique<Program>(/*retain=*/true);
  const uint32_t name = program->AddName("_Z6kernelv");
  const uint32_t call = program->AddCollective({.count = 4096});
  for (int64_t i = 0; i < ops; ++i) {
    Op op{.kind = OpKind::kWork,
          .work = WorkClass::kKernel,
          .launch = 1,
          .lane = 1,
          .host_ns = 2500,
          .value = 10'000 + i % 97,
          .a = name};
    if (i % 8 == 5)
      op = Op{.kind = OpKind::kRecordToken, .lane = 1, .a = 1};
    if (i % 8 == 6)
      op = Op{.kind = OpKind::kWaitToken, .lane = 2, .a = 1};
    if (i % 8 == 7)
      op = Op{.kind = OpKind::kCollective, .launch = 1, .lane = 2, .a = 1, .b = call};
    program->Append(op);
  }
  program->Close();
  return program;
}

void BM_OpenGraph(benchmark::State& state) {
  ExecutionGraph graph;
  graph.world_size = 1;
  graph.classes.push_back({"all", {0}});
  graph.ranks.push_back({});
  graph.programs.push_back(SomeProgram(state.range(0)));
  const File file(".vgraph");
  if (!WriteGraph(graph, file.path()).ok()) {
    state.SkipWithError("the graph was not written");
    return;
  }
  for (auto _ : state)
    if (!OpenGraph(file.path()).ok())
      state.SkipWithError("the graph cannot be opened");
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(
      state.iterations() *
      static_cast<int64_t>(std::filesystem::file_size(file.path())));
}
BENCHMARK(BM_OpenGraph)->Arg(1 << 16)->Arg(1 << 22)->Unit(benchmark::kMillisecond);

// Launches and their kernels: two rows each.
RankTrace SomeTrace(int64_t launches) {
  RankTrace trace;
  trace.session.world_size = 1;
  trace.names = {"", "cudaLaunchKernel", "_Z6kernelv"};
  for (int64_t i = 0; i < launches; ++i) {
    TracedCall call;
    call.function = 1;
    call.correlation = static_cast<uint32_t>(i + 1);
    call.start_ns = 2500 * i;
    call.end_ns = call.start_ns + 2200;
    trace.calls.push_back(call);
    TracedWork work;
    work.correlation = call.correlation;
    work.context = 1;
    work.stream = 7;
    work.name = 2;
    work.grid[0] = 1024;
    work.block[0] = 256;
    work.start_ns = 10'000 * i;
    work.end_ns = work.start_ns + 9000 + i % 97;
    trace.work.push_back(work);
  }
  return trace;
}

void BM_ReadTrace(benchmark::State& state) {
  constexpr int64_t kLaunches = 1 << 19;
  const File file(".vtrace");
  if (!WriteTrace(file.path(), SomeTrace(kLaunches), {.compress = state.range(0) != 0})
           .ok()) {
    state.SkipWithError("the trace was not written");
    return;
  }
  for (auto _ : state)
    if (!ReadTrace(file.path()).ok())
      state.SkipWithError("the trace cannot be read");
  state.SetItemsProcessed(state.iterations() * 2 * kLaunches);
}
BENCHMARK(BM_ReadTrace)->ArgName("zstd")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
