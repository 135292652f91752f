// Importing: what a profile of a few steps costs before one can look at its replay.
//
// BM_ReadKineto reads a made-up profile with the members that real ones have, plain or
// gzip, into rows; bytes are those of the JSON, and CPU time that of all threads.
// BM_ImportKineto makes a graph of it.

#include <cstdint>
#include <random>
#include <string>

#include <benchmark/benchmark.h>

#include "graph/import/kineto_import.h"
#include "graph/import/kineto_reader.h"
#include "tests/graph/import/profile_files.h"
#include "tests/graph/import/simulated_run.h"

namespace vrank::graph {
namespace {

const std::string& Profile() {
  static const std::string profile = [] {
    std::mt19937 random(1);
    const SimulatedRun run = RandomRun(&random, 1, 60'000);
    return ProfileOf(run, Simulate(run), 0);
  }();
  return profile;
}

std::string WriteProfile(const ProfileFiles& files, bool gzip) {
  return gzip ? files.WriteGz("profile.json.gz", Profile())
              : files.Write("profile.json", Profile());
}

void BM_ReadKineto(benchmark::State& state) {
  const ProfileFiles files;
  const std::string path = WriteProfile(files, state.range(0) != 0);
  for (auto _ : state) {
    const auto recording = ReadKineto(path);
    if (!recording.ok())
      state.SkipWithError(recording.status().ToString().c_str());
    benchmark::DoNotOptimize(recording);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(Profile().size()));
}
BENCHMARK(BM_ReadKineto)->ArgName("gzip")->Arg(0)->Arg(1)->MeasureProcessCPUTime();

void BM_ImportKineto(benchmark::State& state) {
  const ProfileFiles files;
  const std::string path = WriteProfile(files, true);
  for (auto _ : state) {
    const auto import = ImportKineto({{path}, {}});
    if (!import.ok())
      state.SkipWithError(import.status().ToString().c_str());
    benchmark::DoNotOptimize(import);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(Profile().size()));
}
BENCHMARK(BM_ImportKineto)->MeasureProcessCPUTime();

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
