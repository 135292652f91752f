#include "virtual_gpu/core/graph_allocations.h"

#include <algorithm>
#include <variant>

namespace vrank::gpu {
namespace {

uint64_t InBlocks(uint64_t bytes) {
  return (bytes + DeviceMemory::kBlock - 1) / DeviceMemory::kBlock *
         DeviceMemory::kBlock;
}

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

GraphMemory::Block* GraphAllocations::FindBlock(uint64_t address, int* device) {
  *device = contents_.DeviceOf(address);
  const auto memory = memory_.find(*device);
  if (memory == memory_.end())
    return nullptr;
  const auto block = memory->second.blocks.find(address);
  return block == memory->second.blocks.end() ? nullptr : &block->second;
}

Error GraphAllocations::TakeAddress(AllocationParameters* parameters) {
  const int device = parameters->device;
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  if (parameters->bytes == 0)
    return Error::kInvalidValue;
  DeviceMemory& memory = contents_.memory(device);
  const uint64_t bytes = InBlocks(parameters->bytes);
  const uint64_t address = memory.TakeAddresses(bytes);
  if (address == 0)
    return Error::kOutOfMemory;
  contents_.Begin(memory.AddInPool(address, parameters->bytes, nullptr));
  memory_[device].blocks[address] = {.bytes = bytes, .references = 1};
  parameters->address = reinterpret_cast<void*>(address);
  return Error::kSuccess;
}

void GraphAllocations::DropBlock(uint64_t address) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(address, &device);
  if (block->references > 0 || block->allocated)
    return;
  DeviceMemory& memory = contents_.memory(device);
  memory.RemoveFromPool(memory.Find(address));
  memory.GiveBackAddresses(address, block->bytes);
  memory_[device].blocks.erase(address);
}

void GraphAllocations::Count(const Graph& graph, int change) {
  for (const auto& node : graph.nodes()) {
    const auto* taken = std::get_if<AllocationParameters>(&node->content);
    if (taken == nullptr)
      continue;
    int device = 0;
    FindBlock(Address(taken->address), &device)->references += change;
    DropBlock(Address(taken->address));
  }
}

Error GraphAllocations::CheckFreed(const void* address) {
  int device = 0;
  return FindBlock(Address(address), &device) == nullptr ? Error::kInvalidValue
                                                         : Error::kSuccess;
}

Error GraphAllocations::TakeMemory(const GraphExec& exec) {
  if (!HasMemoryNodes(*exec.graph))
    return Error::kSuccess;
  int device = 0;
  uint64_t live = 0;
  uint64_t peak = 0;
  for (const GraphStep& step : exec.plan.steps) {
    if (step.node == nullptr)
      continue;
    if (const auto* taken = std::get_if<AllocationParameters>(&step.node->content)) {
      GraphMemory::Block* const block = FindBlock(Address(taken->address), &device);
      if (block->allocated && (exec.flags & kAutoFreeOnLaunch) == 0)
        return Error::kInvalidValue;  // "cannot be relaunched without freeing"
      memory_[device].Drop(block);
      live += block->bytes;
    } else if (const auto* freed = std::get_if<FreeParameters>(&step.node->content)) {
      const GraphMemory::Block* const block =
          FindBlock(Address(freed->address), &device);
      if (block != nullptr)
        live -= std::min(live, block->bytes);
    }
    peak = std::max(peak, live);
  }
  GraphMemory& pool = memory_[device];
  if (pool.used + peak <= pool.reserved)
    return Error::kSuccess;
  const uint64_t more = pool.used + peak - pool.reserved;
  accounting_.ReadOthers(device, more, nullptr);
  if (!accounting_.RecordHidden(
          device, [&] { return contents_.memory(device).TakeHidden(more); }))
    return Error::kOutOfMemory;
  pool.reserved += more;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.used_high = std::max(pool.used_high, pool.reserved);
  return Error::kSuccess;
}

void GraphAllocations::Begin(const AllocationParameters& taken) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(Address(taken.address), &device);
  memory_[device].Use(block);
  contents_.Begin(contents_.Find(Address(taken.address)));
}

bool GraphAllocations::Free(uint64_t address) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(address, &device);
  if (block == nullptr)
    return false;
  memory_[device].Drop(block);
  DropBlock(address);
  return true;
}

void GraphAllocations::Trim(int device) {
  channel_->Spend(HostCost::kMalloc);
  GraphMemory& pool = memory_[device];
  accounting_.RecordHidden(device, [&] {
    contents_.memory(device).GiveBackHidden(pool.reserved - pool.used);
  });
  pool.reserved = pool.used;
}

Error GraphAllocations::GetAttribute(int device, GraphMemoryAttribute attribute,
                                     uint64_t* value) {
  if (value == nullptr)
    return Error::kInvalidValue;
  const GraphMemory& pool = memory_[device];
  switch (attribute) {
    case GraphMemoryAttribute::kUsedCurrent:
      *value = pool.reserved;  // driver 580.159: what is not trimmed counts as in use
      return Error::kSuccess;
    case GraphMemoryAttribute::kUsedHigh:
      *value = pool.used_high;
      return Error::kSuccess;
    case GraphMemoryAttribute::kReservedCurrent:
      *value = pool.reserved;
      return Error::kSuccess;
    case GraphMemoryAttribute::kReservedHigh:
      *value = pool.reserved_high;
      return Error::kSuccess;
  }
  return Error::kInvalidValue;
}

Error GraphAllocations::ResetAttribute(int device, GraphMemoryAttribute attribute) {
  GraphMemory& pool = memory_[device];
  if (attribute == GraphMemoryAttribute::kUsedHigh)
    pool.used_high = pool.reserved;
  else if (attribute == GraphMemoryAttribute::kReservedHigh)
    pool.reserved_high = pool.reserved;
  else
    return Error::kInvalidValue;
  return Error::kSuccess;
}

}  // namespace vrank::gpu
