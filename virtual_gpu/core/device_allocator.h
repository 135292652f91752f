// Allocations of device memory: of the device itself, for the program and for
// libraries, and of pools.
//
// What is allocated is the device memories' (contents.h); an allocation begins
// unwritten. Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_DEVICE_ALLOCATOR_H_
#define VRANK_VIRTUAL_GPU_CORE_DEVICE_ALLOCATOR_H_

#include <cstdint>

#include "base/guest/channel.h"
#include "virtual_gpu/core/activity_notes.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/pool.h"
#include "virtual_gpu/core/stream.h"

namespace vrank::gpu {

class DeviceAllocator {
 public:
  DeviceAllocator(Channel* channel, Contents& contents, MemoryAccounting& accounting,
                  ActivityNotes& notes)
      : channel_(channel),
        contents_(contents),
        accounting_(accounting),
        notes_(notes) {}

  // nullptr where the device is full. The lock is given back meanwhile where other
  // processes use the device. REQUIRES: bytes > 0.
  Allocation* Allocate(int device, uint64_t bytes, protocol::MemoryOwner owner,
                       ApiLock* lock);
  Allocation* AllocateFrom(Pool* pool, uint64_t bytes, Stream* stream);
  // The allocation that begins there and is this process's own, or nullptr.
  Allocation* FindOwn(uint64_t address);
  // `on`: the stream that a pool's memory is freed on, which orders its next use;
  // nullptr: the host has waited already.
  void Free(Allocation* gone, int device, Stream* on);
  // All that the device has, with a context that ends.
  void Drop(int device);

 private:
  Channel* const channel_;
  Contents& contents_;
  MemoryAccounting& accounting_;
  ActivityNotes& notes_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_DEVICE_ALLOCATOR_H_
