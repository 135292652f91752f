// Two levels of lowest fit: blocks of the device, and parts of shared blocks.

#include "virtual_gpu/core/device_memory.h"

#include <algorithm>

namespace vrank::gpu {

DeviceMemory::DeviceMemory(int device, uint64_t capacity)
    : space_(kDeviceBase + static_cast<uint64_t>(device) * kDeviceSpan, kDeviceSpan),
      capacity_(std::min(capacity, kDeviceSpan)),
      next_id_((static_cast<uint64_t>(device) << 48) + 1) {
  // Lowest fit leaves gaps, so allocations get more addresses than there is memory.
  const uint64_t end =
      space_.base() + std::min(RoundUp(4 * capacity_, kBlock), space_.span() / 2);
  blocks_.Add(space_.base(), end);
  reservable_.Add(end, space_.base() + space_.span());
}

bool DeviceMemory::TakeHidden(uint64_t bytes) {
  if (left() < bytes)
    return false;
  used_ += bytes;
  return true;
}

uint64_t DeviceMemory::TakeBlocks(uint64_t bytes) {
  if (left() < bytes)
    return 0;
  auto address = blocks_.Take(bytes, kBlock);
  if (!address)
    return 0;
  used_ += bytes;
  return *address;
}

void DeviceMemory::GiveBackBlocks(uint64_t address, uint64_t bytes) {
  space_.Discard(address, bytes);
  blocks_.Add(address, address + bytes);
  used_ -= bytes;
}

uint64_t DeviceMemory::TakeAddresses(uint64_t bytes) {
  return blocks_.Take(bytes, kBlock).value_or(0);
}

void DeviceMemory::GiveBackAddresses(uint64_t address, uint64_t bytes) {
  space_.Discard(address, bytes);
  blocks_.Add(address, address + bytes);
}

uint64_t DeviceMemory::TakeShared(uint64_t bytes) {
  auto address = shared_.Take(bytes, kAlignment);
  if (!address) {
    uint64_t block = TakeBlocks(kBlock);
    if (block == 0)
      return 0;
    shared_.Add(block, block + kBlock);
    address = shared_.Take(bytes, kAlignment);
  }
  return address.value_or(0);
}

void DeviceMemory::GiveBackShared(uint64_t address, uint64_t bytes) {
  shared_.Add(address, address + bytes);
  // An allocation may lie in two neighbouring blocks.
  for (uint64_t block = address / kBlock * kBlock; block < address + bytes;
       block += kBlock)
    if (shared_.TakeExactly(block, block + kBlock))
      GiveBackBlocks(block, kBlock);
}

template <typename Visit>
void DeviceMemory::ForBlocks(uint64_t address, uint64_t bytes, Visit visit) {
  const uint64_t begin = (address - space_.base() + kBlock - 1) / kBlock;
  const uint64_t end = (address - space_.base() + bytes + kBlock - 1) / kBlock;
  if (at_block_.size() < end)
    at_block_.resize(end);
  for (uint64_t block = begin; block < end; ++block)
    visit(at_block_[block]);
}

Allocation* DeviceMemory::Add(uint64_t address, uint64_t bytes,
                              protocol::MemoryOwner owner, Pool* pool) {
  Allocation& allocation = allocations_[address];
  allocation.base = address;
  allocation.bytes = bytes;
  allocation.id = next_id_++;
  allocation.owner = owner;
  allocation.pool = pool;
  ForBlocks(address, bytes, [&](Allocation*& entry) { entry = &allocation; });
  return &allocation;
}

void DeviceMemory::Remove(Allocation* allocation) {
  if (last_found_ == allocation)
    last_found_ = nullptr;
  ForBlocks(allocation->base, allocation->bytes,
            [](Allocation*& entry) { entry = nullptr; });
  allocations_.erase(allocation->base);
}

Allocation* DeviceMemory::Allocate(uint64_t bytes, protocol::MemoryOwner owner) {
  if (bytes > capacity_)
    return nullptr;
  const uint64_t address = bytes < kSharedBelow ? TakeShared(RoundUp(bytes, kAlignment))
                                                : TakeBlocks(RoundUp(bytes, kBlock));
  return address == 0 ? nullptr : Add(address, bytes, owner, nullptr);
}

void DeviceMemory::Free(Allocation* allocation) {
  const uint64_t address = allocation->base;
  const uint64_t bytes = allocation->bytes;
  Remove(allocation);
  if (bytes < kSharedBelow)
    GiveBackShared(address, RoundUp(bytes, kAlignment));
  else
    GiveBackBlocks(address, RoundUp(bytes, kBlock));
}

Allocation* DeviceMemory::AddInPool(uint64_t address, uint64_t bytes, Pool* pool) {
  return Add(address, bytes, protocol::MemoryOwner::kProgram, pool);
}

void DeviceMemory::RemoveFromPool(Allocation* allocation) {
  Remove(allocation);
}

Allocation* DeviceMemory::AddShared(uint64_t bytes) {
  const uint64_t address = TakeAddresses(RoundUp(bytes, kBlock));
  if (address == 0)
    return nullptr;
  Allocation* made = Add(address, bytes, protocol::MemoryOwner::kProgram, nullptr);
  made->shared = true;
  return made;
}

void DeviceMemory::RemoveShared(Allocation* allocation) {
  const uint64_t address = allocation->base;
  const uint64_t bytes = allocation->bytes;
  Remove(allocation);
  GiveBackAddresses(address, RoundUp(bytes, kBlock));
}

Allocation* DeviceMemory::Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted) {
  auto address = wanted != 0 && reservable_.TakeExactly(wanted, wanted + bytes)
                     ? wanted
                     : reservable_.Take(bytes, std::max(alignment, kBlock));
  if (!address)
    return nullptr;
  Allocation& reservation = allocations_[*address];
  reservation.base = *address;
  reservation.bytes = bytes;
  reservation.id = next_id_++;
  reservation.reserved = true;
  return &reservation;
}

void DeviceMemory::Release(Allocation* reservation) {
  reservable_.Add(reservation->base, reservation->base + reservation->bytes);
  allocations_.erase(reservation->base);
}

bool DeviceMemory::Map(Allocation* reservation, uint64_t address, uint64_t bytes) {
  bool free = true;
  ForBlocks(address, bytes, [&](Allocation*& entry) { free &= entry == nullptr; });
  if (free) {
    ForBlocks(address, bytes, [&](Allocation*& entry) { entry = reservation; });
    mapped_.Add(address, address + bytes);
  }
  return free;
}

bool DeviceMemory::Unmap(Allocation* reservation, uint64_t address, uint64_t bytes) {
  if (!Holds(*reservation, address, bytes))
    return false;
  ForBlocks(address, bytes, [](Allocation*& entry) { entry = nullptr; });
  mapped_.TakeExactly(address, address + bytes);
  space_.Discard(address, bytes);
  return true;
}

bool DeviceMemory::Holds(const Allocation& allocation, uint64_t address,
                         uint64_t bytes) const {
  const uint64_t offset = address - allocation.base;
  if (offset >= allocation.bytes || bytes > allocation.bytes - offset)
    return false;
  if (!allocation.reserved || bytes == 0)
    return true;
  const uint64_t last = (address + bytes - 1 - space_.base()) / kBlock;
  for (uint64_t block = (address - space_.base()) / kBlock; block <= last; ++block)
    if (block >= at_block_.size() || at_block_[block] != &allocation)
      return false;
  return true;
}

uint64_t DeviceMemory::EndOf(const Allocation& allocation, uint64_t address) const {
  const uint64_t end = allocation.base + allocation.bytes;
  if (!allocation.reserved)
    return end;
  return std::min(end, std::prev(mapped_.free_ranges().upper_bound(address))->second);
}

Allocation* DeviceMemory::FindReservation(uint64_t address) {
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin())
    return nullptr;
  Allocation& found = std::prev(it)->second;
  return found.reserved && address - found.base < found.bytes ? &found : nullptr;
}

Allocation* DeviceMemory::Find(uint64_t address) {
  auto holds = [&](const Allocation* candidate) {
    return candidate != nullptr && address - candidate->base < candidate->bytes;
  };
  const uint64_t block = (address - space_.base()) / kBlock;
  if (block < at_block_.size() && holds(at_block_[block]))
    return at_block_[block];
  if (holds(last_found_))
    return last_found_;
  auto it = allocations_.upper_bound(address);
  // Where a reservation has memory, the block has told.
  if (it == allocations_.begin() || !holds(&std::prev(it)->second) ||
      std::prev(it)->second.reserved)
    return nullptr;
  last_found_ = &std::prev(it)->second;
  return last_found_;
}

unsigned char* DeviceMemory::Open(uint64_t address, uint64_t bytes) {
  return space_.Open(address, bytes) ? reinterpret_cast<unsigned char*>(address)
                                     : nullptr;
}

}  // namespace vrank::gpu
