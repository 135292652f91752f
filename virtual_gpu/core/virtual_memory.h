// Virtual memory management: addresses and memory apart.
//
// A reservation is one Allocation whose blocks have memory where something is mapped,
// so that a tensor may span mappings. Physical memory counts as used from its creation
// on. Contents belong to addresses: what is mapped at several is kept equal there
// (Contents::Join), what is mapped nowhere is parked at addresses of its own.
//
// Owns physical memory and mappings; reservations are the device memories'. Sizes are
// in bytes, of physical memory in whole blocks.
//
// Thread rule: libcuda's entry points call it from any thread; it takes the GPU's lock.

#ifndef VRANK_VIRTUAL_GPU_CORE_VIRTUAL_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_VIRTUAL_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/contexts.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/host_waits.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/shared_handles.h"

namespace vrank::gpu {

class VirtualMemory {
 public:
  VirtualMemory(Channel* channel, std::recursive_mutex& lock, Devices& devices,
                Contexts& contexts, Contents& contents, MemoryAccounting& accounting,
                SharedHandles& handles, HostWaits& waits)
      : channel_(channel),
        mutex_(lock),
        devices_(devices),
        contexts_(contexts),
        contents_(contents),
        accounting_(accounting),
        handles_(handles),
        waits_(waits) {}

  // Physical memory of a device, without addresses; sizes in whole blocks.
  Error Create(int device, uint64_t bytes, uint64_t* handle);
  // The memory goes when its handle is released as often as it was returned and it is
  // mapped nowhere.
  Error Release(uint64_t handle);
  // The handle of what is mapped there.
  Error Retain(uint64_t address, uint64_t* handle);
  Error Find(uint64_t handle, int* device, uint64_t* bytes);
  // What another process can map, and what one has exported (shared_handles.h).
  Error Export(uint64_t handle, SharedHandle* shared);
  Error Import(const SharedHandle& shared, uint64_t* handle);

  // Addresses without memory; `wanted` may be 0.
  Error Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted, uint64_t* address);
  Error FreeAddresses(uint64_t address, uint64_t bytes);
  // All of one physical memory, which may be mapped at several places of its device.
  Error Map(uint64_t address, uint64_t bytes, uint64_t handle);
  Error Unmap(uint64_t address, uint64_t bytes);
  // Recorded, not enforced. kInvalidValue where the range is not one of whole mappings.
  Error SetAccess(uint64_t address, uint64_t bytes, int device, MemoryAccess access);
  Error GetAccess(uint64_t address, int device, MemoryAccess* access);

  // The device's context ends. REQUIRES: the GPU's lock held.
  void Drop(int device);

 private:
  struct Physical {
    int device = 0;
    uint64_t bytes = 0;
    uint32_t references = 1;  // by the program's handle; 0: released
    bool shared = false;      // another process's, and counted there
    std::vector<uint64_t> mapped;
    Allocation* parked = nullptr;  // what it contains while it is mapped nowhere
  };
  struct Mapping {
    uint64_t handle = 0;
    std::map<int, MemoryAccess> access;  // by device; none without a row
  };

  // Gives the memory back once nothing refers to it.
  void Return(uint64_t handle);
  Physical* PhysicalOf(const Mapping& mapping) const {
    return physical_.Find(reinterpret_cast<void*>(mapping.handle));
  }
  // Whether the range consists of whole mappings.
  bool IsMapped(uint64_t address, uint64_t bytes) const;
  // Keeps what is to be seen when the memory is mapped again.
  void Park(Physical* physical, uint64_t address);
  // The mapping that the address lies in, or the end.
  std::map<uint64_t, Mapping>::iterator FindMapping(uint64_t address);

  Channel* const channel_;
  std::recursive_mutex& mutex_;
  Devices& devices_;
  Contexts& contexts_;
  Contents& contents_;
  MemoryAccounting& accounting_;
  SharedHandles& handles_;
  HostWaits& waits_;
  HandleTable<Physical, 0x54> physical_;
  std::map<uint64_t, Mapping> mappings_;  // by address
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_VIRTUAL_MEMORY_H_
