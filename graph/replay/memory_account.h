// A rank's device memory as its ops take it and give it back, and the highest moment.
//
// Here once, because both executors must say the same of a program.
//
// Thread rule: plain values.

#ifndef VRANK_GRAPH_REPLAY_MEMORY_ACCOUNT_H_
#define VRANK_GRAPH_REPLAY_MEMORY_ACCOUNT_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "graph/schema/op.h"

namespace vrank::graph {

class MemoryAccount {
 public:
  // REQUIRES: op.kind == OpKind::kMemory.
  void Apply(const Op& op) {
    bytes += op.value;
    if (devices_.size() <= op.a)
      devices_.resize(op.a + 1);
    Device& device = devices_[op.a];
    device.bytes += op.value;
    device.by_owner[std::min<size_t>(op.b, device.by_owner.size() - 1)] += op.value;
    if (device.bytes <= peak_bytes)
      return;
    peak_bytes = device.bytes;
    peak_context_bytes = device.by_owner[static_cast<size_t>(MemoryOwner::kContext)];
    peak_communicator_bytes =
        device.by_owner[static_cast<size_t>(MemoryOwner::kCommunicator)];
  }

  // All devices' memory now; the most that one of them held, and its parts then.
  int64_t bytes = 0, peak_bytes = 0;
  int64_t peak_communicator_bytes = 0, peak_context_bytes = 0;
  friend bool operator==(const MemoryAccount&, const MemoryAccount&) = default;

 private:
  struct Device {
    std::array<int64_t, 3> by_owner{};  // by MemoryOwner
    int64_t bytes = 0;
    friend bool operator==(const Device&, const Device&) = default;
  };
  std::vector<Device> devices_;
};

}  // namespace vrank::graph

#endif  // VRANK_GRAPH_REPLAY_MEMORY_ACCOUNT_H_
