// Elements that a kernel computes from results which are not here yet: a comparison of
// what a collective brings. Computed once somebody looks at them.
//
// Thread rule: the mutex guards what comes after it; the rest never changes.

#ifndef VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
#define VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "virtual_gpu/core/element_kernel.h"
#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

struct PendingValue {
  ElementKernel kernel;
  unsigned char functor[8] = {};
  uint64_t elements = 0;
  std::vector<Landing> landings;  // into inputs

  std::mutex mutex;
  std::vector<unsigned char> inputs[2];
  bool settled = false;
  std::vector<unsigned char> result;  // empty where an input has no bytes
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
