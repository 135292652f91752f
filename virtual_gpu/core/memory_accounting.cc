#include "virtual_gpu/core/memory_accounting.h"

namespace vrank::gpu {

void MemoryAccounting::Emit(int device, int64_t delta, protocol::MemoryOwner owner) {
  protocol::Memory record{};
  record.record.kind = protocol::RecordKind::kMemory;
  record.delta_bytes = delta;
  record.device = static_cast<uint32_t>(devices_.NodeDevice(device));
  record.owner = owner;
  channel_->Emit(record);
  if (owner == protocol::MemoryOwner::kProgram)
    program_bytes_ += static_cast<uint64_t>(delta);
}

uint64_t MemoryAccounting::AskOthers(int node_device, uint64_t bytes,
                                     bool begins_sharing) {
  protocol::AskMemory question{};
  question.record.kind = protocol::RecordKind::kAskMemory;
  question.device = static_cast<uint32_t>(node_device);
  question.bytes = bytes;
  question.begins_sharing = begins_sharing ? 1 : 0;
  return channel_->Ask(question).value;
}

void MemoryAccounting::ReadOthers(int device, uint64_t bytes, ApiLock* lock) {
  const int node_device = devices_.NodeDevice(device);
  if (!channel_->SharesGpu(static_cast<uint32_t>(node_device))) [[likely]]
    return;
  // Other threads of the process may want the lock while it waits.
  if (lock != nullptr)
    lock->unlock();
  const uint64_t held =
      AskOthers(node_device, RoundUp(bytes, DeviceMemory::kBlock), false);
  if (lock != nullptr)
    lock->lock();
  contents_.memory(device).SetHeldByOthers(held);
}

}  // namespace vrank::gpu
