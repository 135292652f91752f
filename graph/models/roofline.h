// The roofline: work takes as long as the slower of its arithmetic and its memory
// traffic.
//
// Pure arithmetic on a GPU's description; formulas, sources and limits: docs/models.md.
//
// Thread rule: pure functions.

#ifndef VRANK_GRAPH_MODELS_ROOFLINE_H_
#define VRANK_GRAPH_MODELS_ROOFLINE_H_

#include <cstdint>

#include "base/guest/protocol.h"
#include "graph/models/gpu.pb.h"
#include "graph/models/kernel_costs.pb.h"
#include "graph/schema/op.h"

namespace vrank::graph {

// What a piece of work costs, and what it did.
struct WorkCost {
  int64_t ns = 0;
  Source source = Source::kModelled;
  uint64_t flops = 0;
  uint64_t bytes = 0;  // read plus written
  // Assumed from the geometry of the launch alone.
  bool unknown_size = false;
  // Of work of unknown size: by how much reading all the memory that it can
  // reach would take longer than `ns`. Weighs in the ledger, takes no time.
  uint32_t unseen_ns = 0;
  // At the highest clock; a clock below it stretches `compute_ns` alone. 0: does not
  // depend on the clock, as what a recording or an assumption states.
  double compute_ns = 0;
  double memory_ns = 0;  // beside it: the longer of the two is in `ns`
  // Of `compute_ns`: how long the GPU's best matrix product takes for as many FLOPs on
  // tensor cores. What draws power (clock_governor.h).
  double tensor_ns = 0;
};

// A matrix multiply. Assumed, not modelled, where the GPU has no unit for its types.
WorkCost GemmCost(const GpuDescription& gpu, const protocol::Gemm& gemm);

// What a kernel does.
struct KernelWork {
  double bytes = 0;  // streamed through device memory
  double flops = 0;  // on `unit`
  ComputeUnit unit = VECTOR_FP32;
  double reached = 0;  // share of the unit's peak; 0: a matrix multiply's (tensor) or 1
  double issued = 0;   // FLOPs that take time, where not `flops`
  double instructions = 0;  // that all threads issue
  // Share of the shorter one of memory and arithmetic that the longer does not hide.
  double unhidden = 0;
  double blocks = 0;  // of the launch; 0: as many as fill the GPU
  double threads = 0;
  double flight = 0;     // bytes that a thread has under way; 0: as many as it takes
  double exchanges = 0;  // accesses to L2 one after the other, beside all else
  // Nothing of `bytes` is in L2, however few they are.
  bool from_memory = false;
};

// Bound by memory, by the unit, or by the issue of instructions: one per clock and
// scheduler, of which a multiprocessor has four, for the 32 threads of a warp (CUDA C++
// Programming Guide, compute capabilities 7.x to 10.x). Few blocks, or threads that
// have few bytes under way, do not reach the bandwidth of memory (Little's law).
// REQUIRES: UnitRate(gpu, unit) > 0 where flops > 0
WorkCost KernelRoofline(const GpuDescription& gpu, const KernelWork& work);

// `threads` in `blocks` that each do this. Counts no FLOPs.
// REQUIRES: work.known()
WorkCost ThreadCost(const GpuDescription& gpu, double blocks, double threads,
                    const ThreadWork& work);

// WorkCost::unseen_ns of a kernel that reaches so many bytes, assumed to take `ns`.
uint32_t UnseenNs(const GpuDescription& gpu, uint64_t reachable_bytes, int64_t ns);

WorkCost CopyCost(const GpuDescription& gpu, const protocol::Copy& copy);
WorkCost MemsetCost(const GpuDescription& gpu, uint64_t bytes);

// Peak of a unit in 1e12 operations per second; 0 where the GPU has none.
double UnitRate(const GpuDescription& gpu, ComputeUnit unit);

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_MODELS_ROOFLINE_H_
