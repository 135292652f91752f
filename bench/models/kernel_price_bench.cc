// What pricing a launch costs the emulator, once its kernel and its shape were seen.
//
// Target: < 100 ns with the record still in the cache. BM_SameShape launches one shape
// over and over; BM_ManyShapes goes round so many, as a model with several layer types
// does; BM_Undescribed is priced by its geometry, in the same cache.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include "graph/models/kernel_model.h"

namespace vrank::graph {
namespace {

// scale(float*, float const*, float, int)
constexpr char kScale[] = "_Z5scalePfPKffi";
constexpr char kCosts[] = "kernel { name: 'scale' bytes: '8*arg3' flops: 'arg3' }";
constexpr size_t kCountAt = 20;  // of arg3 in the packed arguments

KernelModel MakeModel(const char* text) {
  KernelCostFile file;
  KernelCosts costs;
  auto gpu = LoadGpu("h100", VRANK_DATA_DIR);
  if (!gpu.ok() || !google::protobuf::TextFormat::ParseFromString(text, &file) ||
      !costs.Add(file, "bench").ok()) {
    fprintf(stderr, "kernel_price_bench: cannot set up the model\n");
    exit(1);
  }
  return KernelModel(*std::move(gpu), std::move(costs));
}

void Price(benchmark::State& state, const char* costs, int shapes) {
  KernelModel model = MakeModel(costs);
  const uint32_t kernel = model.Define(kScale).value();
  protocol::Kernel launch{};
  for (int i = 0; i < 3; ++i)
    launch.grid[i] = launch.block[i] = 1;
  launch.block[0] = 256;
  std::array<std::byte, 24> arguments{};
  int32_t shape = 0;
  for (auto _ : state) {
    shape = shape + 1 == shapes ? 0 : shape + 1;
    const int32_t count = (shape + 1) << 10;
    launch.grid[0] = static_cast<uint32_t>(count) / 256;
    std::memcpy(&arguments[kCountAt], &count, sizeof count);
    benchmark::DoNotOptimize(model.Kernel(kernel, launch, arguments));
  }
}

void BM_SameShape(benchmark::State& state) {
  Price(state, kCosts, 1);
}
void BM_ManyShapes(benchmark::State& state) {
  Price(state, kCosts, static_cast<int>(state.range(0)));
}
void BM_Undescribed(benchmark::State& state) {
  Price(state, "", 1);
}
BENCHMARK(BM_SameShape);
BENCHMARK(BM_ManyShapes)->Arg(16)->Arg(1024);
BENCHMARK(BM_Undescribed);

}  // namespace
}  // namespace vrank::graph

BENCHMARK_MAIN();
