// Page-locked host memory: what cudaHostAlloc hands out and cudaHostRegister locks.
//
// Allocated at fixed addresses like device memory (address_space.h), because programs
// cache and order these blocks by address, too.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_HOST_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_HOST_MEMORY_H_

#include <cstdint>
#include <map>

#include "virtual_gpu/core/address_space.h"
#include "virtual_gpu/core/error.h"
#include "virtual_gpu/core/range_allocator.h"

namespace vrank::gpu {

struct HostBlock {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t id = 0;
  unsigned flags = 0;
  bool registered = false;  // the program's own memory
};

class HostMemory {
 public:
  static constexpr uint64_t kPage = 4096;

  HostMemory() : space_(kHostBase, kHostSpan) {
    free_.Add(kHostBase, kHostBase + kHostSpan);
  }

  // nullptr where the machine has no memory. REQUIRES: bytes > 0.
  HostBlock* Allocate(uint64_t bytes, unsigned flags);
  Error Free(uint64_t address);
  Error Register(uint64_t address, uint64_t bytes, unsigned flags);
  Error Unregister(uint64_t address);

  // The block that the address lies in, or nullptr: not page-locked.
  const HostBlock* Find(uint64_t address) const;

 private:
  AddressSpace space_;
  RangeAllocator free_;
  std::map<uint64_t, HostBlock> blocks_;  // by base
  uint64_t next_id_ = uint64_t{1} << 56;  // apart from those of device memory
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_HOST_MEMORY_H_
