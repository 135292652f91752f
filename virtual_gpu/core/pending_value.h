// Bytes that a kernel computes from results which are not here yet: a comparison of
// what a collective brings, a sum. Computed once somebody looks at them.
//
// Thread rule: the mutex guards what comes after it; the rest never changes.

#ifndef VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
#define VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

struct PendingValue {
  // The bytes of each input of the kernel.
  using Inputs = std::vector<std::vector<unsigned char>>;
  // Writes result_bytes to `out`. False where the kernel does something else.
  using Compute = std::function<bool(const Inputs& inputs, unsigned char* out)>;

  Compute compute;
  uint64_t result_bytes = 0;
  std::vector<Landing> landings;  // into inputs

  std::mutex mutex;
  Inputs inputs;
  bool settled = false;
  std::vector<unsigned char> result;  // empty where an input has no bytes
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
