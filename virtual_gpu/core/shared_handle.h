// What a process hands to another one that is to use its memory or its event.
//
// It is the content of cudaIpcMemHandle_t, cudaIpcEventHandle_t and
// CUmemFabricHandle (64 bytes each), and of the file behind an exported descriptor. It
// names its owner by rank: one process of a rank uses the GPU, and the bytes are the
// same in every run, which matters where programs exchange them through NCCL.
//
// Thread rule: plain values.

#ifndef VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLE_H_
#define VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLE_H_

#include <cstdint>

namespace vrank::gpu {

struct SharedHandle {
  enum class Kind : uint32_t { kMemory = 1, kPhysical = 2, kEvent = 3 };
  static constexpr uint64_t kMagic = 0x3163'7069'6b6e'7276;  // "vrnkipc1"

  uint64_t magic = kMagic;
  Kind kind = Kind::kMemory;
  uint32_t rank = 0;         // whose it is
  uint32_t node_device = 0;  // the node's number of the device
  uint32_t reserved = 0;
  uint64_t id = 0;     // of the allocation, the physical memory or the event
  uint64_t bytes = 0;  // kMemory, kPhysical
  uint64_t padding[3] = {};

  bool operator==(const SharedHandle&) const = default;
};
static_assert(sizeof(SharedHandle) == 64);

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_SHARED_HANDLE_H_
