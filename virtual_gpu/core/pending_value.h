// Bytes that a kernel computes from results which are not here yet: a comparison of
// what a collective brings, a sum. Computed once somebody looks at them. Of the results
// some bytes may turn out to be unknown: those that follow from them are unknown, too.
//
// Thread rule: the mutex guards what comes after it; the rest never changes.

#ifndef VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
#define VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "virtual_gpu/core/obligations.h"

namespace vrank::gpu {

struct PendingValue {
  // The bytes of each input of the kernel.
  using Inputs = std::vector<std::vector<unsigned char>>;
  // Computes `out`, which is zero before, and flags of its bytes that are known.
  // `known`: those of the inputs. Flags are 0xff or 0.
  using Compute =
      std::function<void(const Inputs& inputs, const Inputs& known,
                         std::span<unsigned char> out, std::span<unsigned char> flags)>;

  uint64_t result_bytes = 0;
  // Arrivals (obligations.h) of the results, if all of them have one.
  bool tracked = true;
  ObligationSet arrivals;
  uint32_t depth = 1;  // of values that this one follows from

  std::mutex mutex;
  Compute compute;
  std::vector<Landing> landings;  // into inputs
  Inputs inputs, known;
  bool settled = false;
  std::vector<unsigned char> result, result_known;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_PENDING_VALUE_H_
