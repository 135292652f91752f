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
// guide gives no figures for the loss. For compute capability 9 they are measured
// (H100 SXM 700 W, driver 580.159, 2026-11-23; docs/models.md), for others assumed.
struct Tile {
  int64_t m, n;
  double efficiency;
  double on_major_9;
};
constexpr Tile kTiles[] = {
    {256, 128, 1.00, 1.00}, {128, 256, 1.00, 1.00}, {128, 128, 0.95, 0.98},
    {256, 64, 0.90, 0.93},  {64, 256, 0.90, 0.93},  {128, 64, 0.80, 0.95},
    {64, 128, 0.80, 0.95},  {64, 64, 0.65, 0.80},
};

// Parts that cuBLAS splits a long k into where tiles are few.
constexpr uint64_t kSplits[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr uint64_t kShortestPart = 256;

// Share of the shorter one of arithmetic and memory traffic that the longer one does
// not hide: filling the pipeline, and writing what the last tiles computed. Measured as
// above; for other GPUs nobody has measured it, and it is left out.
constexpr double kUnhiddenOnMajor9 = 0.1;

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

bool IsTensorUnit(ComputeUnit unit) {
  return unit >= TENSOR_TF32;
}

// Operations that a multiprocessor of compute capability 8 and up does in a clock for
// each element of a copy from memory to shared memory, where operands do not lie on 16
// bytes. The tensor memory accelerator cannot load them, and cuBLAS takes kernels whose
// threads copy 2, 4 or 8 bytes at a time, which bounds them. Six products of bfloat16
// on an H200 (2026-11-29; docs/models.md): 355 to 500.
constexpr double kOperationsPerCopiedElement = 470;

// `rate`, or what copies of unaligned operands allow. A product of a vector reads its
// matrix once, whatever the width, and is bound by memory.
double ReachableRate(const GpuDescription& gpu, const protocol::Gemm& gemm,
                     ComputeUnit unit, double rate) {
  constexpr uint32_t kWidestAccess = 16;
  constexpr double kKhzPerGhz = 1e6;
  const bool copies = IsTensorUnit(unit) && unit != TENSOR_FP64 && unit != TENSOR_FP8 &&
                      unit != TENSOR_INT8;
  if (!copies || gemm.alignment == 0 || gemm.alignment >= kWidestAccess ||
      gemm.m == 1 || gemm.n == 1)
    return rate;
  const double elements =
      std::max(1.0, static_cast<double>(gemm.alignment) /
                        static_cast<double>(ElementBytes(gemm.a_type)));
  return std::min(rate, kOperationsPerCopiedElement * elements * gpu.multiprocessors() *
                            gpu.clock_khz() / kKhzPerGhz);
}

int64_t Nanoseconds(double ns) {
  return static_cast<int64_t>(std::ceil(ns));
}

double MemoryBytesPerNs(const GpuDescription& gpu) {
  return gpu.memory_gbs() * gpu.efficiency().memory();
}

// A kernel's accesses are few at its begin and at its end: what that loses is
// memory_ramp_ns for kernels that move a megabyte or more, and less for smaller ones.
double MemoryNs(const GpuDescription& gpu, double bytes, double bytes_per_ns) {
  constexpr double kRampBytes = 1e6;
  const double ramp = static_cast<double>(gpu.memory_ramp_ns());
  return bytes / bytes_per_ns + ramp * std::min(1.0, bytes / kRampBytes);
}

// Copies within the device.
double CopyMemoryNs(const GpuDescription& gpu, double bytes, double bytes_per_ns) {
  constexpr double kRampBytes = 4e6;
  if (gpu.copy_overhead_ns() == 0)
    return MemoryNs(gpu, bytes, bytes_per_ns);
  return bytes / bytes_per_ns +
         static_cast<double>(gpu.copy_ramp_ns()) * std::min(1.0, bytes / kRampBytes);
}

int64_t CopyOverheadNs(const GpuDescription& gpu) {
  return gpu.copy_overhead_ns() > 0 ? gpu.copy_overhead_ns() : gpu.kernel_overhead_ns();
}

// Of traffic that takes `cold` from memory and `near` from L2, which serves what it
// still holds. Input was most often written by the work before, which is about as
// large: both fit in L2 up to half of it, and nothing is left of that from the whole of
// it on.
double NearNs(const GpuDescription& gpu, double bytes, double near, double cold) {
  const double resident =
      std::clamp(2 - 2 * bytes / static_cast<double>(gpu.l2_bytes()), 0.0, 1.0);
  return resident * std::min(cold, near) + (1 - resident) * cold;
}

// What the multiprocessors that have a block can have under way.
double ReachableBytesPerNs(const GpuDescription& gpu, const KernelWork& work) {
  double rate = MemoryBytesPerNs(gpu);
  if (work.blocks <= 0)
    return rate;
  const double busy = std::min<double>(work.blocks, gpu.multiprocessors());
  if (gpu.multiprocessor_gbs() > 0 && work.flight <= 0)
    rate = std::min(rate, busy * gpu.multiprocessor_gbs());
  if (work.flight > 0 && gpu.memory_latency_ns() > 0) {
    const double resident =
        std::min<double>(work.threads, busy * gpu.threads_per_multiprocessor());
    rate = std::min(
        rate, resident * work.flight / static_cast<double>(gpu.memory_latency_ns()));
  }
  return rate;
}

// What is bounded by loads under way was measured from memory only, and stays so.
double KernelMemoryNs(const GpuDescription& gpu, const KernelWork& work) {
  const double cold = MemoryNs(gpu, work.bytes, ReachableBytesPerNs(gpu, work));
  if (work.from_memory || work.flight > 0 || gpu.l2_gbs() <= 0)
    return cold;
  // Few blocks reach their share of the bandwidth of L2.
  const double busy =
      work.blocks > 0 ? std::min(1.0, work.blocks / gpu.multiprocessors()) : 1;
  const double rate = busy * gpu.l2_gbs();
  // Threads that find addresses before they load wait as long for their first and last.
  const double near =
      work.unhidden > 0 ? MemoryNs(gpu, work.bytes, rate) : work.bytes / rate;
  return NearNs(gpu, work.bytes, near, cold);
}

double IssueNs(const GpuDescription& gpu, double instructions) {
  constexpr double kThreadsPerClock = 4 * 32;
  constexpr double kKhzPerGhz = 1e6;
  return instructions /
         (gpu.multiprocessors() * kThreadsPerClock * gpu.clock_khz() / kKhzPerGhz);
}

// Nanoseconds of arithmetic: whole tiles in whole waves, for the best of the tile
// sizes and splits. The parts of a split k are added up by one more kernel, from sums
// in float32.
double GemmComputeNs(const GpuDescription& gpu, const protocol::Gemm& gemm,
                     double operations_per_ns) {
  // A product of two vectors is a reduction: no tile of it is an output.
  if (gemm.m == 1 && gemm.n == 1)
    return 2.0 * static_cast<double>(gemm.k * gemm.batch) / operations_per_ns;
  const uint64_t multiprocessors = gpu.multiprocessors();
  const double per_multiprocessor =
      operations_per_ns / static_cast<double>(multiprocessors);
  const double sums = static_cast<double>(gemm.m * gemm.n * gemm.batch) * sizeof(float);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const uint64_t tiles = CeilDiv(gemm.m, static_cast<uint64_t>(tile.m)) *
                           CeilDiv(gemm.n, static_cast<uint64_t>(tile.n)) * gemm.batch;
    const double tile_operations =
        2.0 * static_cast<double>(tile.m * tile.n) * static_cast<double>(gemm.k);
    const double efficiency =
        gpu.compute_major() == 9 ? tile.on_major_9 : tile.efficiency;
    for (const uint64_t parts : kSplits) {
      if (parts > 1 && gemm.k / parts < kShortestPart)
        break;
      const double waves = static_cast<double>(CeilDiv(tiles * parts, multiprocessors));
      double ns = waves * tile_operations / static_cast<double>(parts) /
                  (per_multiprocessor * efficiency);
      if (parts > 1) {
        ns += static_cast<double>(gpu.kernel_overhead_ns()) +
              sums * static_cast<double>(parts) / MemoryBytesPerNs(gpu);
      }
      best = std::min(best, ns);
    }
  }
  return best;
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
  const double compute =
      GemmComputeNs(gpu, gemm, ReachableRate(gpu, gemm, unit.unit, rate));
  const double memory = static_cast<double>(cost.bytes) / MemoryBytesPerNs(gpu);
  const double unhidden = gpu.compute_major() == 9 ? kUnhiddenOnMajor9 : 0;
  cost.ns = gpu.gemm_overhead_ns() + Nanoseconds(std::max(compute, memory) +
                                                 unhidden * std::min(compute, memory));
  cost.compute_ns = compute;
  cost.memory_ns = memory;
  if (IsTensorUnit(unit.unit))
    cost.tensor_ns = static_cast<double>(cost.flops) / rate;
  return cost;
}

WorkCost KernelRoofline(const GpuDescription& gpu, const KernelWork& work) {
  const bool tensor = IsTensorUnit(work.unit);
  const bool narrow = work.unit == TENSOR_FP8 || work.unit == TENSOR_INT8;
  const double best = !tensor  ? 1
                      : narrow ? gpu.efficiency().gemm_8bit()
                               : gpu.efficiency().gemm();
  const double memory = KernelMemoryNs(gpu, work);
  double compute = IssueNs(gpu, work.instructions);
  const double issued = work.issued > 0 ? work.issued : work.flops;
  WorkCost cost;
  if (issued > 0) {
    const double rate = UnitRate(gpu, work.unit) * kOperationsPerNsPerTera;
    compute =
        std::max(compute, issued / (rate * (work.reached > 0 ? work.reached : best)));
    if (tensor)
      cost.tensor_ns = issued / (rate * best);
  }
  const double exchanges = work.exchanges * static_cast<double>(gpu.l2_latency_ns());
  cost.ns = gpu.kernel_overhead_ns() +
            Nanoseconds(std::max(memory, compute) +
                        work.unhidden * std::min(memory, compute) + exchanges);
  cost.flops = static_cast<uint64_t>(work.flops);
  cost.bytes = static_cast<uint64_t>(work.bytes);
  cost.compute_ns = compute;
  cost.memory_ns = memory;
  return cost;
}

WorkCost ThreadCost(const GpuDescription& gpu, double blocks, double threads,
                    const ThreadWork& work) {
  return KernelRoofline(gpu, {.bytes = threads * work.bytes,
                              .instructions = threads * work.instructions,
                              .blocks = blocks,
                              .threads = threads});
}

uint32_t UnseenNs(const GpuDescription& gpu, uint64_t reachable_bytes, int64_t ns) {
  const int64_t all =
      KernelRoofline(gpu, {.bytes = static_cast<double>(reachable_bytes)}).ns;
  return static_cast<uint32_t>(
      std::clamp<int64_t>(all - ns, 0, std::numeric_limits<uint32_t>::max()));
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
      cost.memory_ns = CopyMemoryNs(gpu, 2 * bytes, MemoryBytesPerNs(gpu));
      if (gpu.l2_gbs() > 0) {
        cost.memory_ns =
            NearNs(gpu, 2 * bytes, 2 * bytes / gpu.l2_gbs(), cost.memory_ns);
      }
      cost.ns = CopyOverheadNs(gpu) + Nanoseconds(cost.memory_ns);
      return cost;
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
  WorkCost cost;
  cost.bytes = bytes;
  const double share = gpu.efficiency().memory_write() > 0
                           ? gpu.efficiency().memory_write()
                           : gpu.efficiency().memory();
  const double count = static_cast<double>(bytes), rate = gpu.memory_gbs() * share;
  // A memset begins as fast as an empty one, whatever it writes.
  cost.memory_ns =
      gpu.copy_overhead_ns() > 0 ? count / rate : MemoryNs(gpu, count, rate);
  cost.ns = CopyOverheadNs(gpu) + Nanoseconds(cost.memory_ns);
  return cost;
}

}  // namespace vrank::graph
