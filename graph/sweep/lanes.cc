// Which vector unit runs the sweep.

#include "graph/sweep/lanes.h"

#include <initializer_list>

namespace vrank::graph {

const char* Name(VectorUnit unit) {
  switch (unit) {
    case VectorUnit::kScalar:
      return "scalar";
    case VectorUnit::kAvx2:
      return "AVX2";
    case VectorUnit::kAvx512:
      return "AVX-512";
  }
  return "unknown";
}

namespace {

bool Has(VectorUnit unit) {
#if defined(__x86_64__)
  switch (unit) {
    case VectorUnit::kScalar:
      return true;
    case VectorUnit::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case VectorUnit::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512ifma");
  }
#endif
  return unit == VectorUnit::kScalar;
}

}  // namespace

VectorUnit BestVectorUnit() {
  for (const VectorUnit unit : {VectorUnit::kAvx512, VectorUnit::kAvx2}) {
    if (FindSweepKernel(unit, {}) != nullptr)
      return unit;
  }
  return VectorUnit::kScalar;
}

SweepKernel FindSweepKernel(VectorUnit unit, const SweepKernelKey& key) {
  if (!Has(unit))
    return nullptr;
  switch (unit) {
    case VectorUnit::kScalar:
      return ScalarSweepKernel(key);
    case VectorUnit::kAvx2:
      return Avx2SweepKernel(key);
    case VectorUnit::kAvx512:
      return Avx512SweepKernel(key);
  }
  return nullptr;
}

void FetchAhead(const SweepLanes& lanes, int ledgers) {
  for (uint32_t ahead = 4; ahead <= 12; ahead += 4)
    __builtin_prefetch(lanes.ops + lanes.next + ahead);
  __builtin_prefetch(lanes.ledgers +
                     (lanes.next + size_t{4}) * static_cast<size_t>(ledgers));
  __builtin_prefetch(lanes.runs + lanes.runs_done);
}

uint32_t VectorWidth(VectorUnit unit) {
  return unit == VectorUnit::kAvx512 ? 8 : unit == VectorUnit::kAvx2 ? 4 : 1;
}

}  // namespace vrank::graph
