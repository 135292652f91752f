// The memory of one device: addresses, capacity, and what the bytes are.
//
// Addresses come as from CUDA: multiples of 512 bytes; requests below 1 MiB share 2 MiB
// blocks, larger ones take whole blocks. The device's memory is used up in blocks, and
// that is what cudaMemGetInfo and the emulator's memory records count.
//
// Not thread-safe: the GPU's lock guards it.

#ifndef VRANK_VIRTUAL_GPU_CORE_DEVICE_MEMORY_H_
#define VRANK_VIRTUAL_GPU_CORE_DEVICE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/address_space.h"
#include "virtual_gpu/core/content_map.h"
#include "virtual_gpu/core/range_allocator.h"

namespace vrank::gpu {

struct Pool;

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;  // as requested
  uint64_t id = 0;
  protocol::MemoryOwner owner = protocol::MemoryOwner::kProgram;
  Pool* pool = nullptr;  // stream-ordered memory
  // Addresses that cuMemAddressReserve gave out; memory lies behind mapped blocks only.
  bool reserved = false;
  bool shared = false;  // another process's memory
  // How the program's own allocator deals it out (Contents::SetBlock): not at all, in
  // blocks that are all known, so that the rest is in no use, or in others, too.
  enum class Split : uint8_t { kNone, kBlocks, kAlsoOthers };
  Split split = Split::kNone;
  ContentMap contents;
};

class DeviceMemory {
 public:
  static constexpr uint64_t kBlock = uint64_t{2} << 20;
  static constexpr uint64_t kAlignment = 512;
  static constexpr uint64_t kSharedBelow = uint64_t{1} << 20;

  DeviceMemory(int device, uint64_t capacity);

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }  // by this process
  // What the device has left, beside what other processes held when last asked.
  uint64_t left() const {
    const uint64_t beside_own = capacity_ - used_;
    return beside_own - std::min(beside_own, held_by_others_);
  }
  void SetHeldByOthers(uint64_t bytes) { held_by_others_ = bytes; }

  // Memory that has no address for the program (a context's own). False when full.
  bool TakeHidden(uint64_t bytes);
  void GiveBackHidden(uint64_t bytes) { used_ -= bytes; }

  // nullptr when the device is full. used() grows by whole blocks.
  // REQUIRES: bytes > 0.
  Allocation* Allocate(uint64_t bytes, protocol::MemoryOwner owner);
  void Free(Allocation* allocation);

  // Whole blocks without an allocation in them: what a pool takes from the device.
  // 0 when the device is full. REQUIRES: bytes is a multiple of kBlock.
  uint64_t TakeBlocks(uint64_t bytes);
  void GiveBackBlocks(uint64_t address, uint64_t bytes);
  // Addresses of whole blocks without memory behind them; 0 where there are none left.
  uint64_t TakeAddresses(uint64_t bytes);
  void GiveBackAddresses(uint64_t address, uint64_t bytes);
  // An allocation inside a pool's blocks.
  Allocation* AddInPool(uint64_t address, uint64_t bytes, Pool* pool);
  void RemoveFromPool(Allocation* allocation);

  // Addresses at which another process's memory is seen, which is not counted here;
  // nullptr where none are left. REQUIRES: bytes > 0.
  Allocation* AddShared(uint64_t bytes);
  void RemoveShared(Allocation* allocation);

  // Addresses without memory, in whole blocks; nullptr where none are left. `wanted` is
  // used where it is free. REQUIRES: bytes is a multiple of kBlock.
  Allocation* Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted);
  // REQUIRES: nothing is mapped there.
  void Release(Allocation* reservation);
  // Puts memory, which the caller accounts for, behind whole blocks of a reservation,
  // or takes it away. False where some block has memory already, or none.
  bool Map(Allocation* reservation, uint64_t address, uint64_t bytes);
  bool Unmap(Allocation* reservation, uint64_t address, uint64_t bytes);

  // The allocation that the address lies in, or nullptr.
  Allocation* Find(uint64_t address);
  // Does [address, address + bytes) lie in this allocation, and memory behind all of
  // it?
  bool Holds(const Allocation& allocation, uint64_t address, uint64_t bytes) const;
  // Where it ends: of a reservation, the memory mapped in one piece from the address
  // on. REQUIRES: Find(address) == &allocation.
  uint64_t EndOf(const Allocation& allocation, uint64_t address) const;
  // The reservation that the address lies in, mapped or not, or nullptr.
  Allocation* FindReservation(uint64_t address);
  bool Contains(uint64_t address) const { return space_.Contains(address); }

  // Where real bytes of the range can be read and written; nullptr where the machine
  // has no memory for them.
  unsigned char* Open(uint64_t address, uint64_t bytes);

  // All that is allocated, by address.
  const std::map<uint64_t, Allocation>& allocations() const { return allocations_; }

 private:
  Allocation* Add(uint64_t address, uint64_t bytes, protocol::MemoryOwner owner,
                  Pool* pool);
  void Remove(Allocation* allocation);
  // Calls `visit(entry)` for the at_block_ entries of [address, address + bytes).
  template <typename Visit>
  void ForBlocks(uint64_t address, uint64_t bytes, Visit visit);
  uint64_t TakeShared(uint64_t bytes);
  void GiveBackShared(uint64_t address, uint64_t bytes);

  AddressSpace space_;
  uint64_t capacity_;
  uint64_t used_ = 0;
  uint64_t next_id_;
  RangeAllocator blocks_;      // free addresses, in whole blocks
  RangeAllocator shared_;      // free parts of the blocks that small requests share
  RangeAllocator reservable_;  // addresses that no memory is taken from
  RangeAllocator mapped_;      // parts of reservations that have memory, joined
  std::map<uint64_t, Allocation> allocations_;  // by base
  // By block: the allocation that the block's first byte lies in. Finds large
  // allocations without a search, which launches do for each of their pointers.
  std::vector<Allocation*> at_block_;
  Allocation* last_found_ = nullptr;
  uint64_t held_by_others_ = 0;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_DEVICE_MEMORY_H_
