// The roofline against hand-computed cases and published measurements.

#include "graph/models/roofline.h"

#include <cmath>
#include <iostream>

#include <gtest/gtest.h>

#include "graph/models/gpu.h"

namespace vrank::graph {
namespace {

protocol::Gemm Bf16Gemm(uint64_t m, uint64_t n, uint64_t k, uint64_t batch = 1) {
  protocol::Gemm gemm = {};
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.batch = batch;
  gemm.a_type = gemm.b_type = gemm.c_type = ElementType::kBfloat16;
  gemm.compute_type = ElementType::kFloat32;
  return gemm;
}

Gpu Load(const char* name) {
  return *LoadGpu(name, VRANK_DATA_DIR);
}

TEST(RooflineTest, CountsFlopsAndBytesOfAGemm) {
  protocol::Gemm gemm = Bf16Gemm(3, 5, 7, 2);
  gemm.reads_c = 1;
  const WorkCost cost = GemmCost(Load("h100").description, gemm);
  EXPECT_EQ(cost.flops, 2u * 3 * 5 * 7 * 2);
  EXPECT_EQ(cost.bytes, 2u * 2 * (3 * 7 + 7 * 5 + 2 * 3 * 5));
  EXPECT_EQ(cost.source, Source::kModelled);
}

// Expectation: 16 x 16 tiles of 256 x 128 (m 4096, n 2048) in 2 waves of 132, each tile
// 2 * 256 * 128 * 4096 operations at 989.4e3 * 0.803 / 132 a nanosecond, + 5000 ns.
TEST(RooflineTest, PricesWholeWaves) {
  const double tile = 2.0 * 256 * 128 * 4096 / (989.4e3 * 0.803 / 132);
  const int64_t expected = 5000 + static_cast<int64_t>(std::ceil(2 * tile));
  const WorkCost cost = GemmCost(Load("h100").description, Bf16Gemm(4096, 2048, 4096));
  std::cout << "Expectation: 5000 + 2 * " << tile << " = " << expected
            << "\nActual: " << cost.ns << "\n";
  EXPECT_NEAR(static_cast<double>(cost.ns), static_cast<double>(expected), 1);
}

TEST(RooflineTest, IsBoundByMemoryForThinGemms) {
  // 8192 x 1 x 8192: 134 MB of weights dominate.
  const Gpu gpu = Load("h100");
  const WorkCost cost = GemmCost(gpu.description, Bf16Gemm(8192, 1, 8192));
  const double memory = static_cast<double>(cost.bytes) / (3352.3 * 0.90);
  EXPECT_NEAR(static_cast<double>(cost.ns), 5000 + memory, 2);
}

// Measured on sm_90 (openxla/xla, matmul_interpolator_data.h): operations per second of
// bf16 x bf16 -> bf16. The model stays within the band stated in docs/models.md.
TEST(RooflineTest, StaysNearPublishedMeasurements) {
  struct Case {
    uint64_t b, m, n, k;
    double flops_per_second;
  };
  const Case cases[] = {
      {1, 4096, 2048, 4096, 764093096602028}, {1, 1024, 4096, 512, 340681153010232},
      {2, 1024, 4096, 512, 448139325542570},  {2, 256, 2048, 2048, 332247798870580},
      {1, 4096, 512, 512, 238821580071174},   {1, 1024, 2048, 256, 139519467775467},
      {4, 256, 1024, 256, 82850449382716},    {1, 256, 2048, 256, 41838443890274},
  };
  const Gpu gpu = Load("h100");
  for (const Case& c : cases) {
    const WorkCost cost = GemmCost(gpu.description, Bf16Gemm(c.m, c.n, c.k, c.b));
    const double measured = static_cast<double>(cost.flops) / c.flops_per_second * 1e9;
    const double ratio = static_cast<double>(cost.ns) / measured;
    std::cout << c.b << " x " << c.m << " x " << c.n << " x " << c.k << ": model "
              << cost.ns << " ns, measured " << measured << " ns, ratio " << ratio
              << "\n";
    EXPECT_GT(ratio, 0.75);
    EXPECT_LT(ratio, 1.25);
  }
}

TEST(RooflineTest, AssumesWhereTheGpuHasNoUnit) {
  protocol::Gemm gemm = Bf16Gemm(128, 128, 128);
  gemm.a_type = gemm.b_type = ElementType::kFloat8E4M3;
  EXPECT_EQ(GemmCost(Load("a100").description, gemm).source, Source::kAssumed);
  EXPECT_EQ(GemmCost(Load("h100").description, gemm).source, Source::kModelled);
}

TEST(RooflineTest, UsesTensorCoresForFloatOnlyWhereAllowed) {
  protocol::Gemm gemm = Bf16Gemm(4096, 4096, 4096);
  gemm.a_type = gemm.b_type = gemm.c_type = ElementType::kFloat32;
  const Gpu gpu = Load("h100");
  gemm.compute_type = ElementType::kFloat32;
  const int64_t vector = GemmCost(gpu.description, gemm).ns;
  gemm.compute_type = ElementType::kTfloat32;
  const int64_t tensor = GemmCost(gpu.description, gemm).ns;
  EXPECT_GT(vector, 5 * tensor);
}

TEST(RooflineTest, PricesCopiesByTheirLink) {
  const Gpu gpu = Load("a100");
  protocol::Copy copy = {};
  copy.bytes = 1 << 20;
  copy.copy_kind = protocol::CopyKind::kHostToDevice;
  copy.pinned = 1;
  const int64_t pinned = CopyCost(gpu.description, copy).ns;
  EXPECT_NEAR(static_cast<double>(pinned), 900 + 2000 + (1 << 20) / 25.1, 1);
  copy.pinned = 0;
  EXPECT_GT(CopyCost(gpu.description, copy).ns, pinned);
  copy.copy_kind = protocol::CopyKind::kDeviceToDevice;
  EXPECT_NEAR(static_cast<double>(CopyCost(gpu.description, copy).ns),
              900 + 2.0 * (1 << 20) / (2039 * 0.90), 1);
}

}  // namespace
}  // namespace vrank::graph
