// The most that PyTorch's caching allocator has held of each GPU of the process.
//
// Thread rule: Note() by any thread; Take() by one at a time.

#ifndef VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_PEAKS_H_
#define VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_PEAKS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/guest/protocol.h"

namespace vrank::host {

class AllocatorPeaks {
 public:
  // GPUs beyond these are left out.
  static constexpr uint32_t kMostDevices = 16;

  // What the allocator holds of a GPU now, in bytes: given to tensors, and taken from
  // CUDA.
  void Note(uint32_t device, uint64_t allocated, uint64_t reserved) {
    if (device >= kMostDevices)
      return;
    const bool raised = Raise(&devices_[device].allocated, allocated) |
                        Raise(&devices_[device].reserved, reserved);
    if (raised)
      raised_.fetch_or(1u << device, std::memory_order_release);
  }

  bool raised() const { return raised_.load(std::memory_order_relaxed) != 0; }

  // Of one GPU whose peak is higher than at the last call for it; nullopt: of none.
  std::optional<protocol::AllocatorPeak> Take() {
    const uint32_t raised = raised_.load(std::memory_order_acquire);
    if (raised == 0)
      return std::nullopt;
    const auto device = static_cast<uint32_t>(__builtin_ctz(raised));
    raised_.fetch_and(~(1u << device), std::memory_order_acq_rel);
    protocol::AllocatorPeak peak{};
    peak.record.kind = protocol::RecordKind::kAllocatorPeak;
    peak.device = device;
    peak.allocated_bytes = devices_[device].allocated.load(std::memory_order_relaxed);
    peak.reserved_bytes = devices_[device].reserved.load(std::memory_order_relaxed);
    return peak;
  }

 private:
  struct Device {
    std::atomic<uint64_t> allocated{0}, reserved{0};
  };
  static bool Raise(std::atomic<uint64_t>* peak, uint64_t bytes) {
    uint64_t before = peak->load(std::memory_order_relaxed);
    while (before < bytes)
      if (peak->compare_exchange_weak(before, bytes, std::memory_order_relaxed))
        return true;
    return false;
  }

  std::array<Device, kMostDevices> devices_;
  std::atomic<uint32_t> raised_{0};  // a bit for each GPU
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_CHANNEL_ALLOCATOR_PEAKS_H_
