// Roofline arithmetic. Units: 1e12 operations per second are 1e3 per nanosecond, and
// 1e9 bytes per second are one byte per nanosecond.

#include "graph/models/roofline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vrank::graph {
namespace {

constexpr double kOperationsPerNsPerTera = 1e3;

// Output tiles that one multiprocessor works on at a time. NVIDIA's "Matrix
// Multiplication Background User's Guide" lists these sizes for cuBLAS, most efficient
// first: a smaller tile reads more operand bytes per operation from on-chip memory. The
// guide gives no figures for the loss; these are assumed.
struct Tile {
  int64_t m, n;
  double efficiency;
};
constexpr Tile kTiles[] = {
    {256, 128, 1.00}, {128, 256, 1.00}, {128, 128, 0.95}, {256, 64, 0.90},
    {64, 256, 0.90},  {128, 64, 0.80},  {64, 128, 0.80},  {64, 64, 0.65},
};

uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

// The unit that cuBLAS would use and whether the GPU has it.
struct GemmUnit {
  ComputeUnit unit = VECTOR_FP32;
  double efficiency = 1;
  bool exists = true;
};

GemmUnit FindGemmUnit(const GpuDescription& gpu, const protocol::Gemm& gemm) {
  const double wide = gpu.efficiency().gemm();
  const double narrow = gpu.efficiency().gemm_8bit();
  GemmUnit found;
  switch (gemm.a_type) {
    case ElementType::kFloat16:
      found = {TENSOR_FP16, wide, true};
      break;
    case ElementType::kBfloat16:
      found = {TENSOR_BF16, wide, true};
      break;
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
      found = {TENSOR_FP8, narrow, true};
      break;
    case ElementType::kInt8:
    case ElementType::kUint8:
      found = {TENSOR_INT8, narrow, true};
      break;
    case ElementType::kFloat64:
      found = {UnitRate(gpu, TENSOR_FP64) > 0 ? TENSOR_FP64 : VECTOR_FP64, wide, true};
      break;
    default:
      // float32: only a caller that allows TF32 gets the tensor cores.
      found = {gemm.compute_type == ElementType::kTfloat32 ? TENSOR_TF32 : VECTOR_FP32,
               wide, true};
      break;
  }
  if (UnitRate(gpu, found.unit) <= 0) {
    found = {VECTOR_FP32, wide, false};
  }
  return found;
}

// Nanoseconds of arithmetic: whole tiles in whole waves, for the best of the tile
// sizes.
double GemmComputeNs(const protocol::Gemm& gemm, double operations_per_ns,
                     uint64_t multiprocessors) {
  const double per_multiprocessor =
      operations_per_ns / static_cast<double>(multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const uint64_t tiles = CeilDiv(gemm.m, static_cast<uint64_t>(tile.m)) *
                           CeilDiv(gemm.n, static_cast<uint64_t>(tile.n)) * gemm.batch;
    const uint64_t waves = CeilDiv(tiles, multiprocessors);
    const double tile_operations =
        2.0 * static_cast<double>(tile.m * tile.n) * static_cast<double>(gemm.k);
    best = std::min(best, static_cast<double>(waves) * tile_operations /
                              (per_multiprocessor * tile.efficiency));
  }
  return best;
}

int64_t Nanoseconds(double ns) {
  return static_cast<int64_t>(std::ceil(ns));
}

double MemoryBytesPerNs(const GpuDescription& gpu) {
  return gpu.memory_gbs() * gpu.efficiency().memory();
}

}  // namespace

double UnitRate(const GpuDescription& gpu, ComputeUnit unit) {
  switch (unit) {
    case VECTOR_FP32:
      return gpu.vector().fp32();
    case VECTOR_FP64:
      return gpu.vector().fp64();
    case VECTOR_FP16:
      return gpu.vector().fp16();
    case VECTOR_BF16:
      return gpu.vector().bf16();
    case TENSOR_TF32:
      return gpu.tensor().tf32();
    case TENSOR_BF16:
      return gpu.tensor().bf16();
    case TENSOR_FP16:
      return gpu.tensor().fp16();
    case TENSOR_FP8:
      return gpu.tensor().fp8();
    case TENSOR_FP64:
      return gpu.tensor().fp64();
    case TENSOR_INT8:
      return gpu.tensor().int8();
    default:
      return 0;
  }
}

WorkCost GemmCost(const GpuDescription& gpu, const protocol::Gemm& gemm) {
  const GemmUnit unit = FindGemmUnit(gpu, gemm);
  const uint64_t c_accesses = gemm.reads_c ? 2 : 1;
  WorkCost cost;
  cost.source = unit.exists ? Source::kModelled : Source::kAssumed;
  cost.flops = 2 * gemm.m * gemm.n * gemm.k * gemm.batch;
  cost.bytes = gemm.batch * (gemm.m * gemm.k * ElementBytes(gemm.a_type) +
                             gemm.k * gemm.n * ElementBytes(gemm.b_type) +
                             c_accesses * gemm.m * gemm.n * ElementBytes(gemm.c_type));
  const double rate =
      UnitRate(gpu, unit.unit) * kOperationsPerNsPerTera * unit.efficiency;
  const double compute = GemmComputeNs(gemm, rate, gpu.multiprocessors());
  const double memory = static_cast<double>(cost.bytes) / MemoryBytesPerNs(gpu);
  cost.ns = gpu.gemm_overhead_ns() + Nanoseconds(std::max(compute, memory));
  return cost;
}

WorkCost KernelRoofline(const GpuDescription& gpu, double flops, double bytes,
                        ComputeUnit unit, double reached) {
  const bool tensor = unit >= TENSOR_TF32;
  const bool narrow = unit == TENSOR_FP8 || unit == TENSOR_INT8;
  const double efficiency = reached > 0 ? reached
                            : !tensor   ? 1
                            : narrow    ? gpu.efficiency().gemm_8bit()
                                        : gpu.efficiency().gemm();
  double ns = bytes / MemoryBytesPerNs(gpu);
  if (flops > 0) {
    ns = std::max(ns,
                  flops / (UnitRate(gpu, unit) * kOperationsPerNsPerTera * efficiency));
  }
  return {gpu.kernel_overhead_ns() + Nanoseconds(ns), Source::kModelled,
          static_cast<uint64_t>(flops), static_cast<uint64_t>(bytes)};
}

WorkCost ThreadCost(const GpuDescription& gpu, double threads, const ThreadWork& work) {
  constexpr double kThreadsPerClock = 4 * 32;
  constexpr double kKhzPerGhz = 1e6;
  const double bytes = threads * work.bytes;
  const double issue =
      threads * work.instructions /
      (gpu.multiprocessors() * kThreadsPerClock * gpu.clock_khz() / kKhzPerGhz);
  const double ns = std::max(bytes / MemoryBytesPerNs(gpu), issue);
  return {gpu.kernel_overhead_ns() + Nanoseconds(ns), Source::kModelled, 0,
          static_cast<uint64_t>(bytes)};
}

WorkCost CopyCost(const GpuDescription& gpu, const protocol::Copy& copy) {
  const double bytes = static_cast<double>(copy.bytes);
  const HostLink& link = gpu.host_link();
  WorkCost cost;
  cost.bytes = copy.bytes;
  switch (copy.copy_kind) {
    case protocol::CopyKind::kHostToDevice:
    case protocol::CopyKind::kDeviceToHost:
      cost.ns =
          link.latency_ns() +
          Nanoseconds(bytes / (copy.pinned ? link.pinned_gbs() : link.pageable_gbs()));
      break;
    case protocol::CopyKind::kDeviceToDevice:
      cost.bytes = 2 * copy.bytes;  // read and written in the same memory
      cost.ns = Nanoseconds(2 * bytes / MemoryBytesPerNs(gpu));
      break;
    case protocol::CopyKind::kPeer:
      cost.ns = Nanoseconds(bytes / gpu.peer_gbs());
      break;
    case protocol::CopyKind::kHostToHost:
      cost.ns = Nanoseconds(bytes / gpu.host_copy_gbs());
      break;
  }
  cost.ns += gpu.kernel_overhead_ns();
  return cost;
}

WorkCost MemsetCost(const GpuDescription& gpu, uint64_t bytes) {
  return {gpu.kernel_overhead_ns() +
              Nanoseconds(static_cast<double>(bytes) / MemoryBytesPerNs(gpu)),
          Source::kModelled, 0, bytes};
}

}  // namespace vrank::graph
