// What a launch costs the thread that makes it: a kernel, and a CUDA graph of kernels.
//
// The channel here does nothing but copy the record, so that the figures are the
// virtual GPU's own; the ring and its lock have benchmarks of their own
// (bench/virtual_host).

#include <cstring>

#include <benchmark/benchmark.h>

#include "virtual_gpu/core/process_gpu.h"

namespace vrank::gpu {
namespace {

class CopyingChannel final : public Channel {
 public:
  CopyingChannel() {
    settings_.devices = settings_.world_size = 1;
    settings_.gpu.memory_bytes = uint64_t{80} << 30;
    settings_.gpu.shared_per_block_optin = 227 << 10;
  }
  const protocol::Settings& settings() const override { return settings_; }
  TimePoint Now() override { return {}; }
  using Channel::Spend;
  void Spend(Duration duration) override { spent_ += duration; }
  Answer Collect(uint32_t) override { return {}; }
  uint32_t Name(std::string_view) override { return 1; }
  std::optional<TimePoint> PublishedEnd(uint32_t, uint32_t) override { return {}; }
  bool ClockIsLocal() override { return true; }
  uint64_t launches() const override { return 0; }
  const unsigned char* bounce() const override { return ring_; }
  void LockBounce() override {}
  void UnlockBounce() override {}
  bool detached() const override { return false; }
  bool ClaimRank() override { return true; }

 private:
  void EmitRecord(protocol::Record* record, size_t struct_bytes, const void* tail,
                  size_t tail_bytes, uint32_t*) override {
    if (at_ + struct_bytes + tail_bytes > sizeof ring_)
      at_ = 0;
    std::memcpy(ring_ + at_, record, struct_bytes);
    if (tail_bytes > 0)
      std::memcpy(ring_ + at_ + struct_bytes, tail, tail_bytes);
    at_ += struct_bytes + tail_bytes;
    benchmark::ClobberMemory();
  }
  Answer AskRecord(protocol::Record*, size_t, uint32_t*, const void*, size_t) override {
    return {};
  }

  protocol::Settings settings_{};
  Duration spent_;
  size_t at_ = 0;
  unsigned char ring_[1 << 20];
};

struct Setup {
  CopyingChannel channel;
  ProcessGpu gpu{&channel};
  void* stream = nullptr;
  void* memory = nullptr;

  Setup() {
    [[maybe_unused]] Error error = gpu.EnsureContext(0);
    error = gpu.CreateStream(kStreamNonBlocking, 0, &stream);
    error = gpu.Allocate(1 << 20, &memory);
  }
  void LaunchKernel() {
    static KernelCode* const kernel = gpu.FindKernel("_Z6kernelPKfPf");
    void* arguments[] = {&memory, &memory};
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.stream = stream;
    launch.arguments = arguments;
    [[maybe_unused]] const Error error = gpu.LaunchKernel(launch);
  }
};

void KernelLaunches(benchmark::State& state) {
  Setup setup;
  for (auto _ : state)
    setup.LaunchKernel();
}
BENCHMARK(KernelLaunches);

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
