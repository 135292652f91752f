#include "virtual_gpu/core/device_allocator.h"

namespace vrank::gpu {

Allocation* DeviceAllocator::Allocate(int device, uint64_t bytes,
                                      protocol::MemoryOwner owner, ApiLock* lock) {
  accounting_.ReadOthers(device, bytes, lock);
  Allocation* made = accounting_.Record(
      device, owner, [&] { return contents_.memory(device).Allocate(bytes, owner); });
  if (made == nullptr)
    return nullptr;
  if (notes_.listening()) [[unlikely]]
    notes_.Memory(ActivityNotes::MemoryOf(*made, device), accounting_.change());
  contents_.Begin(made);
  return made;
}

Allocation* DeviceAllocator::AllocateFrom(Pool* pool, uint64_t bytes, Stream* stream) {
  accounting_.ReadOthers(pool->device, bytes, nullptr);
  const uint64_t reserved = pool->reserved;
  Allocation* made = accounting_.Record(pool->device, protocol::MemoryOwner::kProgram,
                                        [&] { return pool->Allocate(bytes, stream); });
  if (pool->reserved > reserved)
    channel_->Count(LossId::kPoolChunks, pool->reserved - reserved);
  if (made == nullptr)
    return nullptr;
  if (notes_.listening()) [[unlikely]] {
    ActivityMemory memory = ActivityNotes::MemoryOf(*made, pool->device);
    memory.stream = ActivityNotes::NumberOf(*stream);
    notes_.Memory(memory, accounting_.change());
  }
  contents_.Begin(made);
  return made;
}

Allocation* DeviceAllocator::FindOwn(uint64_t address) {
  Allocation* const found = contents_.Find(address);
  return found != nullptr && found->base == address && !found->shared ? found : nullptr;
}

void DeviceAllocator::Free(Allocation* gone, int device, Stream* on) {
  ActivityMemory memory = ActivityNotes::MemoryOf(*gone, device);
  int64_t change = 0;
  if (gone->pool != nullptr) {
    gone->pool->Free(gone, on);
  } else {
    accounting_.Record(device, gone->owner,
                       [&] { contents_.memory(device).Free(gone); });
    change = accounting_.change();
  }
  if (!notes_.listening()) [[likely]]
    return;
  memory.release = true;
  memory.stream = on == nullptr ? 0 : ActivityNotes::NumberOf(*on);
  notes_.Memory(memory, change);
}

void DeviceAllocator::Drop(int device) {
  DeviceMemory& memory = contents_.memory(device);
  while (!memory.allocations().empty())
    Free(memory.Find(memory.allocations().begin()->first), device, nullptr);
}

}  // namespace vrank::gpu
