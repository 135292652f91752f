// The clock of a GPU at its power limit: what it does to products, to streams and to
// jobs that wait.

#include "graph/models/clock_governor.h"

#include <algorithm>
#include <iostream>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "graph/models/gpu.h"

namespace vrank::graph {
namespace {

GpuDescription H100() {
  return LoadGpu("h100", VRANK_DATA_DIR)->description;
}

WorkCost Product(const GpuDescription& gpu, uint64_t size) {
  protocol::Gemm gemm = {};
  gemm.m = gemm.n = gemm.k = size;
  gemm.batch = 1;
  gemm.a_type = gemm.b_type = gemm.c_type = ElementType::kBfloat16;
  gemm.compute_type = ElementType::kFloat32;
  return GemmCost(gpu, gemm);
}

WorkCost Stream(const GpuDescription& gpu, double bytes) {
  return KernelRoofline(gpu, {.bytes = bytes});
}

// Until the clock has settled.
constexpr int64_t kLongNs = 3'000'000'000;

int64_t RunFor(ClockGovernor* governor, const WorkCost& cost, int64_t ns) {
  int64_t last = 0;
  for (const int64_t begin = governor->run_ns(); governor->run_ns() - begin < ns;)
    last = governor->Run(cost);
  return last;
}

// Expectation: large products one after the other reach the share of the peak that was
// measured over seconds, within two steps of the clock.
TEST(ClockGovernorTest, ProductsAloneComeDownToTheSustainedRate) {
  for (const char* name : {"h100", "h200", "a100"}) {
    const GpuDescription gpu = LoadGpu(name, VRANK_DATA_DIR)->description;
    ClockGovernor governor(gpu);
    const WorkCost product = Product(gpu, 8192);
    EXPECT_EQ(governor.Run(product), product.ns);
    const auto ns = static_cast<double>(RunFor(&governor, product, kLongNs));
    const double reached =
        static_cast<double>(product.flops) / ns / (gpu.tensor().bf16() * 1e3);
    const double at_first = static_cast<double>(product.flops) /
                            static_cast<double>(product.ns) /
                            (gpu.tensor().bf16() * 1e3);
    const double expected =
        at_first * gpu.power().sustained_gemm() / gpu.efficiency().gemm();
    std::cout << name << ": expectation: " << expected << " actual: " << reached
              << "\n";
    EXPECT_NEAR(reached / expected, 1, 2.0 * ClockGovernor::kStepKhz / gpu.clock_khz());
  }
}

TEST(ClockGovernorTest, TheHighestClockLastsForTheFirstWindows) {
  const GpuDescription gpu = H100();
  ClockGovernor governor(gpu);
  const WorkCost product = Product(gpu, 8192);
  while (governor.run_ns() + product.ns < 2 * ClockGovernor::kWindowNs)
    EXPECT_EQ(governor.Run(product), product.ns);
  EXPECT_FALSE(governor.is_held_back());
  RunFor(&governor, product, 2 * ClockGovernor::kWindowNs);
  EXPECT_TRUE(governor.is_held_back());
}

TEST(ClockGovernorTest, StreamsThroughMemoryAreNotHeldBack) {
  const GpuDescription gpu = H100();
  ClockGovernor governor(gpu);
  const WorkCost stream = Stream(gpu, 1e9);
  EXPECT_EQ(RunFor(&governor, stream, kLongNs), stream.ns);
  EXPECT_EQ(governor.clock_khz(), gpu.clock_khz());
}

// Once products hold the clock down, streams between them still take as long as ever.
TEST(ClockGovernorTest, StretchesWhatTheClockBindsAlone) {
  const GpuDescription gpu = H100();
  ClockGovernor governor(gpu);
  RunFor(&governor, Product(gpu, 8192), kLongNs);
  const WorkCost stream = Stream(gpu, 1e9);
  EXPECT_EQ(governor.Run(stream), stream.ns);
  WorkCost recorded = Product(gpu, 8192);
  recorded.compute_ns = 0;
  EXPECT_EQ(governor.Run(recorded), recorded.ns);
  // Bound by memory by less than what the clock has lost.
  WorkCost both = stream;
  both.compute_ns = both.memory_ns * 0.95;
  EXPECT_GT(governor.Run(both), both.ns);
  EXPECT_LT(governor.Run(both), both.ns * 11 / 10);
}

// Property: the larger the share of products, the lower the clock; whatever the mix, it
// settles, and equal iterations then take equally long.
TEST(ClockGovernorTest, SettlesByTheShareOfProducts) {
  const GpuDescription gpu = H100();
  const WorkCost product = Product(gpu, 4096), stream = Stream(gpu, 1e8);
  uint32_t last = gpu.clock_khz();
  for (int products = 0; products <= 20; ++products) {
    ClockGovernor governor(gpu);
    std::vector<int64_t> iterations;
    for (int iteration = 0; iteration < 200; ++iteration) {
      const int64_t begin = governor.run_ns();
      for (int work = 0; work < 200; ++work)
        governor.Run(work % 20 < products ? product : stream);
      iterations.push_back(governor.run_ns() - begin);
    }
    EXPECT_EQ(*std::min_element(iterations.end() - 100, iterations.end()),
              *std::max_element(iterations.end() - 100, iterations.end()))
        << products << " of 20";
    EXPECT_LE(governor.clock_khz(), last);
    last = governor.clock_khz();
  }
  EXPECT_LT(last, gpu.clock_khz());
}

TEST(ClockGovernorTest, AJobThatWaitsKeepsItsClock) {
  const GpuDescription gpu = H100();
  const WorkCost product = Product(gpu, 8192);
  const auto clock_of = [&](int64_t idle_per_product) {
    ClockGovernor governor(gpu);
    int64_t host = 5'000'000'000;  // start-up
    while (governor.run_ns() < kLongNs) {
      host += governor.Run(product) + idle_per_product;
      governor.HostWas(host, governor.run_ns());
    }
    return governor.clock_khz();
  };
  EXPECT_LT(clock_of(0), gpu.clock_khz());
  EXPECT_GT(clock_of(product.ns / 4), clock_of(0));
  EXPECT_EQ(clock_of(product.ns * 2 / 3), gpu.clock_khz());
  // Idle for more than half of the time: nothing counts.
  EXPECT_EQ(clock_of(product.ns * 2), gpu.clock_khz());
}

// A host that runs ahead says nothing about idle time.
TEST(ClockGovernorTest, AHostAheadIsNoIdleGpu) {
  const GpuDescription gpu = H100();
  const WorkCost product = Product(gpu, 8192);
  ClockGovernor waits(gpu), ahead(gpu);
  int64_t host = 0;
  while (waits.run_ns() < kLongNs) {
    waits.Run(product);
    ahead.Run(product);
    ahead.HostWas(host += 1000, ahead.run_ns());
  }
  EXPECT_EQ(ahead.clock_khz(), waits.clock_khz());
}

TEST(ClockGovernorTest, WithoutPowerInItsDescriptionAGpuNeverSlowsDown) {
  GpuDescription gpu = H100();
  gpu.clear_power();
  ClockGovernor governor(gpu);
  const WorkCost product = Product(gpu, 8192);
  EXPECT_EQ(RunFor(&governor, product, 10 * ClockGovernor::kWindowNs), product.ns);
}

TEST(ClockGovernorTest, PowerThatCannotBeIsRefused) {
  const auto refused = [](auto change) {
    GpuDescription gpu = H100();
    change(gpu.mutable_power());
    const auto made = MakeGpu("mine", gpu);
    EXPECT_FALSE(made.ok());
    return std::string(made.status().message());
  };
  EXPECT_NE(refused([](Power* power) {
              power->set_limit_watts(0);
            }).find("power.limit_watts"),
            std::string::npos);
  EXPECT_NE(refused([](Power* power) { power->set_idle_watts(400); }).find("decrease"),
            std::string::npos);
  EXPECT_NE(refused([](Power* power) {
              power->set_sustained_gemm(0.9);
            }).find("efficiency.gemm"),
            std::string::npos);
}

}  // namespace
}  // namespace vrank::graph
