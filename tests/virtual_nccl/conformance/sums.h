// All-reduces of ones, whose results are easily told.

#ifndef VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUMS_H_
#define VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUMS_H_

#include <nccl.h>

#include <vector>

#include "tests/virtual_nccl/conformance/world.h"

namespace conformance {

using Ints = std::vector<int>;

// In place.
inline void Sum(const Buffer& buffer, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_OK(ncclAllReduce(buffer.at(), buffer.at(), buffer.bytes() / sizeof(int),
                          ncclInt, ncclSum, comm, stream));
}

inline void Sum(const Buffer& buffer) {
  Sum(buffer, TheWorld().comm, TheWorld().stream);
}

inline Buffer Ones(size_t count = 3) {
  return Buffer(Ints(count, 1));
}

// Whether ones were summed `times` times.
inline bool IsSummed(const Buffer& buffer, int times = 1) {
  int value = 1;
  while (times-- > 0)
    value *= TheWorld().size;
  return buffer.Values<int>() == Ints(buffer.bytes() / sizeof(int), value);
}

}  // namespace conformance

#endif  // VRANK_TESTS_VIRTUAL_NCCL_CONFORMANCE_SUMS_H_
