// What a launch costs the thread that makes it: a kernel, and a CUDA graph of kernels.
//
// The channel here does nothing but copy the record, so that the figures are the
// virtual GPU's own; the ring and its lock have benchmarks of their own
// (bench/virtual_host).

#include <cstdlib>

#include <benchmark/benchmark.h>

#include "bench/guest/copying_channel.h"
#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

struct Setup {
  CopyingChannel channel;
  ProcessGpu gpu{&channel};
  void* stream = nullptr;
  void* memory = nullptr;
  KernelCode* kernel = nullptr;

  explicit Setup(const char* name = "_Z6kernelPKfPf") {
    [[maybe_unused]] Error error = gpu.EnsureContext(0);
    error = gpu.CreateStream(kStreamNonBlocking, 0, &stream);
    error = gpu.Allocate(1 << 20, &memory);
    kernel = gpu.FindKernel(name);
  }
  void LaunchKernel() {
    void* arguments[] = {&memory, &memory};
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.stream = stream;
    launch.arguments = arguments;
    if (gpu.LaunchKernel(launch) != Error::kSuccess)
      std::abort();  // a refused launch costs next to nothing
  }
};

void KernelLaunches(benchmark::State& state) {
  Setup setup;
  for (auto _ : state)
    setup.LaunchKernel();
}
BENCHMARK(KernelLaunches);

// A kernel whose effect its name states: torch's GradScaler moves its scale on.
void NamedKernelLaunches(benchmark::State& state) {
  Setup setup("_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi");
  auto* const memory = static_cast<char*>(setup.memory);
  void *scale = memory, *tracker = memory + 4, *found = memory + 8;
  double growth = 2, backoff = 0.5;
  int interval = 2000;
  void* arguments[] = {&scale, &tracker, &found, &growth, &backoff, &interval};
  KernelLaunch launch;
  launch.kernel = setup.kernel;
  launch.stream = setup.stream;
  launch.arguments = arguments;
  for (auto _ : state)
    if (setup.gpu.LaunchKernel(launch) != Error::kSuccess)
      std::abort();
}
BENCHMARK(NamedKernelLaunches);

// Per launch of a graph with so many kernels in a row.
void GraphLaunches(benchmark::State& state) {
  Setup setup;
  Graphs& graphs = setup.gpu.graphs();
  void* graph = nullptr;
  void* exec = nullptr;
  Instantiation how;
  [[maybe_unused]] Error error =
      graphs.BeginCapture(setup.stream, CaptureMode::kRelaxed, nullptr, {});
  for (int64_t node = 0; node < state.range(0); ++node)
    setup.LaunchKernel();
  error = graphs.EndCapture(setup.stream, &graph);
  error = graphs.Instantiate(graph, &how, &exec);
  for (auto _ : state)
    benchmark::DoNotOptimize(graphs.Launch(exec, setup.stream));
}
BENCHMARK(GraphLaunches)->Arg(1)->Arg(10)->Arg(100)->Arg(1000);

}  // namespace
}  // namespace vrank::gpu

BENCHMARK_MAIN();
