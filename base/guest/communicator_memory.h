// The device memory that NCCL takes for a communicator, as a cluster description has it
// (docs/models.md): a first part, and so much for each member beyond the first.
//
// Thread rule: plain values.

#ifndef VRANK_BASE_GUEST_COMMUNICATOR_MEMORY_H_
#define VRANK_BASE_GUEST_COMMUNICATOR_MEMORY_H_

#include <cstdint>

namespace vrank {

struct CommunicatorMemory {
  uint64_t first_bytes = 0, peer_bytes = 0;

  // Of a communicator of `ranks` members, at least one.
  uint64_t Bytes(uint64_t ranks) const {
    return first_bytes + (ranks - 1) * peer_bytes;
  }
  // What the device is short of then: it gives 2 MiB at a time
  // (cuMemGetAllocationGranularity).
  int64_t OnDevice(uint64_t ranks) const {
    constexpr uint64_t kGranularity = 2 << 20;
    return static_cast<int64_t>((Bytes(ranks) + kGranularity - 1) / kGranularity *
                                kGranularity);
  }
};

}  // namespace vrank

#endif  // VRANK_BASE_GUEST_COMMUNICATOR_MEMORY_H_
