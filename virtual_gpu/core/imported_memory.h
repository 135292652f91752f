// Memory of other processes, at the addresses at which it is seen here.
//
// Owns what has been opened (shared_handles.h).
//
// Not thread-safe: the GPU's lock guards it; methods that take it give it back
// meanwhile.

#ifndef VRANK_VIRTUAL_GPU_CORE_IMPORTED_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_IMPORTED_MEMORY_H_

#include <cstdint>
#include <vector>

#include "base/guest/channel.h"
#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/contents.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/host_waits.h"
#include "virtual_gpu/core/shared_handle.h"
#include "virtual_gpu/core/shared_handles.h"

namespace vrank::gpu {

class ImportedMemory {
 public:
  ImportedMemory(Channel* channel, Contents& contents, SharedHandles& handles,
                 HostWaits& waits)
      : channel_(channel), contents_(contents), handles_(handles), waits_(waits) {}

  // The same address each time. `device`: the current one. REQUIRES: the handle can be
  // opened (SharedHandles::Open).
  Error Open(const SharedHandle& handle, int device, void** address);
  // The last of as many calls as Open had closes it, behind the work of `device`.
  Error Close(void* address, int device, ApiLock* lock);
  // The device's context ends.
  void Drop(int device);

 private:
  struct Imported {
    SharedHandle handle;
    int device = 0;
    uint64_t address = 0;
    uint32_t opens = 0;
  };
  std::vector<Imported>::iterator Find(uint64_t address);

  Channel* const channel_;
  Contents& contents_;
  SharedHandles& handles_;
  HostWaits& waits_;
  std::vector<Imported> imported_;  // few
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_IMPORTED_MEMORY_H_
