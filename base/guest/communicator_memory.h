// The device memory that NCCL takes for a communicator, as a cluster description has
// it. docs/models.md derives the parts and holds them against measurements.
//
// Thread rule: plain values.

#ifndef VRANK_BASE_GUEST_COMMUNICATOR_MEMORY_H_
#define VRANK_BASE_GUEST_COMMUNICATOR_MEMORY_H_

#include <algorithm>
#include <cstdint>

namespace vrank {

struct CommunicatorMemory {
  uint64_t first_bytes = 0;  // structures of the channels, and rings
  uint64_t peer_bytes = 0;   // for each member beyond the first
  // Of a communicator of one member, which has channels and no rings; 0: first_bytes.
  uint64_t single_bytes = 0;
  // With more than two members, what all-reduces connect beside the rings: back links
  // of the trees, which all but one member have, or buffers that NVLink SHARP reduces,
  // for each of the members of a node.
  uint64_t tree_bytes = 0;
  uint64_t nvls_bytes = 0, nvls_members = 0;

  // Of a communicator of `ranks` members, at least one.
  uint64_t Bytes(uint64_t ranks) const {
    if (ranks == 1 && single_bytes != 0)
      return single_bytes;
    uint64_t bytes = first_bytes + (ranks - 1) * peer_bytes;
    if (ranks > 2)
      bytes +=
          tree_bytes / ranks * (ranks - 1) + nvls_bytes * std::min(ranks, nvls_members);
    return bytes;
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
