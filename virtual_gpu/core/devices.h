// The devices that the process sees, and whether it can use them at all.
//
// Owns the visible devices (visible_devices.h), which are read at the first call that
// depends on them, and the fault after which every call fails.
//
// Thread rule: every method may be called from any thread, with the GPU's lock held or
// not.

#ifndef VRANK_VIRTUAL_GPU_CORE_DEVICES_H_
#define VRANK_VIRTUAL_GPU_CORE_DEVICES_H_

#include <atomic>
#include <mutex>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/error.h"

namespace vrank::gpu {

class Devices {
 public:
  // `lock`: the GPU's. `channel` may be nullptr: outside vrank, there is no device.
  Devices(Channel* channel, std::recursive_mutex& lock)
      : channel_(channel), mutex_(lock) {}

  // kNoDevice outside vrank (said once on stderr), kNotInitialized after fork.
  Error Reachable();
  // Reachable, not lost by a fault, and there is a device.
  Error Ready();
  // Every call fails from now on, with the error of the first fault.
  void Fault(Error error = Error::kIllegalAddress) {
    Error none = Error::kSuccess;
    fault_.compare_exchange_strong(none, error, std::memory_order_release,
                                   std::memory_order_relaxed);
  }
  Error fault() const { return fault_.load(std::memory_order_acquire); }
  bool faulted() const { return fault() != Error::kSuccess; }

  int Count() { return static_cast<int>(visible().size()); }
  bool Has(int device) { return device >= 0 && device < Count(); }
  // The node's number of a device; -1 where there is no such device.
  int NodeDevice(int device);
  // By device, the node's number.
  const std::vector<int>& visible();

  // The calling thread's device; -1: none was chosen.
  static int Current();
  Error SetCurrent(int device);
  // Numbered as cudaDeviceAttr.
  Error GetAttribute(int device, int attribute, int* value);

 private:
  Channel* const channel_;
  std::recursive_mutex& mutex_;
  std::atomic<Error> fault_ = Error::kSuccess;
  std::atomic<bool> visible_read_ = false;
  std::vector<int> visible_;  // guarded by mutex_ until it is read
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_DEVICES_H_
