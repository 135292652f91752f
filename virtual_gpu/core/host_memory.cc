// Blocks by address; freed pages go back to the system.

#include "virtual_gpu/core/host_memory.h"

namespace vrank::gpu {

HostBlock* HostMemory::Allocate(uint64_t bytes, unsigned flags) {
  if (bytes > kHostSpan)
    return nullptr;
  const uint64_t rounded = RoundUp(bytes, kPage);
  auto address = free_.Take(rounded, kPage);
  if (!address)
    return nullptr;
  if (!space_.Open(*address, rounded)) {
    free_.Add(*address, *address + rounded);
    return nullptr;
  }
  HostBlock& block = blocks_[*address];
  block = {*address, bytes, next_id_++, flags, false};
  return &block;
}

Error HostMemory::Free(uint64_t address) {
  auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.registered)
    return Error::kInvalidValue;
  const uint64_t rounded = RoundUp(found->second.bytes, kPage);
  space_.Discard(address, rounded);
  free_.Add(address, address + rounded);
  blocks_.erase(found);
  return Error::kSuccess;
}

Error HostMemory::Register(uint64_t address, uint64_t bytes, unsigned flags) {
  auto next = blocks_.lower_bound(address);
  const bool overlaps = (next != blocks_.end() && next->first < address + bytes) ||
                        Find(address) != nullptr;
  if (overlaps)
    return Error::kHostMemoryAlreadyRegistered;
  blocks_[address] = {address, bytes, next_id_++, flags, true};
  return Error::kSuccess;
}

Error HostMemory::Unregister(uint64_t address) {
  auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.registered)
    return Error::kHostMemoryNotRegistered;
  blocks_.erase(found);
  return Error::kSuccess;
}

const HostBlock* HostMemory::Find(uint64_t address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin())
    return nullptr;
  const HostBlock& block = std::prev(next)->second;
  return address - block.base < block.bytes ? &block : nullptr;
}

}  // namespace vrank::gpu
