// The memory pools of the process, by handle and by device.
//
// Owns the pools and which of them each device uses. Sizes are in bytes.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_POOLS_H_
#define VRANK_VIRTUAL_GPU_CORE_POOLS_H_

#include <cstdint>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/devices.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/handle_table.h"
#include "virtual_gpu/core/memory_accounting.h"
#include "virtual_gpu/core/pool.h"
#include "virtual_gpu/core/stream_lanes.h"

namespace vrank::gpu {

class Pools {
 public:
  // What a device allocates from.
  struct OfDevice {
    Pool* standard = nullptr;
    Pool* current = nullptr;
  };

  Pools(Channel* channel, Devices& devices, Contents& contents, StreamLanes& lanes,
        MemoryAccounting& accounting)
      : channel_(channel),
        devices_(devices),
        contents_(contents),
        lanes_(lanes),
        accounting_(accounting) {}

  // The pools of a device, made at the first call. A device has them before it has a
  // context, and asking for them makes none (seen on an H200 with driver 580).
  OfDevice& Of(int device);
  // nullptr where the handle is none, or its pool was destroyed.
  Pool* Find(void* handle);

  // --- Calls of the program
  // --------------------------------------------------------
  void* Create(int device, uint64_t max_bytes);
  Error Destroy(void* handle);
  Error SetCurrent(int device, void* handle);
  Error Trim(void* handle, uint64_t keep_bytes);
  Error SetAccess(void* handle, int device, MemoryAccess access);
  Error GetAccess(void* handle, int device, MemoryAccess* access);
  Error GetAttribute(void* handle, PoolAttribute attribute, uint64_t* value);
  Error SetAttribute(void* handle, PoolAttribute attribute, uint64_t value);

  // A wait of the host: what pools hold beyond their thresholds goes back to the
  // device.
  void TrimAll();
  // The device's context ends.
  void Drop(int device);

 private:
  Pool* Make(int device, uint64_t max_bytes);
  void Shrink(Pool* pool, uint64_t keep);

  Channel* const channel_;
  Devices& devices_;
  Contents& contents_;
  StreamLanes& lanes_;
  MemoryAccounting& accounting_;
  HandleTable<Pool, 0x53> pools_;
  std::vector<OfDevice> of_device_;  // by device
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_POOLS_H_
