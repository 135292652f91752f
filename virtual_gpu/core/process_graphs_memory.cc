// The memory of allocation nodes (graph_memory.h).

#include <algorithm>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"
#include "virtual_gpu/core/process_graphs.h"

namespace vrank::gpu {
namespace {

constexpr auto kProgram = protocol::MemoryOwner::kProgram;

uint64_t InBlocks(uint64_t bytes) {
  return (bytes + DeviceMemory::kBlock - 1) / DeviceMemory::kBlock *
         DeviceMemory::kBlock;
}

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

bool ProcessGraphs::HasMemoryNodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const auto* child = std::get_if<ChildContent>(&node->content);
    return node->type() == GraphNodeType::kAllocation ||
           node->type() == GraphNodeType::kFree ||
           (child != nullptr && HasMemoryNodes(*child->graph));
  });
}

GraphMemory::Block* ProcessGraphs::FindBlock(uint64_t address, int* device) {
  *device = gpu_.contents_.DeviceOf(address);
  const auto memory = memory_.find(*device);
  if (memory == memory_.end())
    return nullptr;
  const auto block = memory->second.blocks.find(address);
  return block == memory->second.blocks.end() ? nullptr : &block->second;
}

Error ProcessGraphs::TakeAddress(AllocationParameters* parameters) {
  const int device = parameters->device;
  if (device < 0 || device >= gpu_.DeviceCount())
    return Error::kInvalidDevice;
  if (parameters->bytes == 0)
    return Error::kInvalidValue;
  DeviceMemory& memory = gpu_.contents_.memory(device);
  const uint64_t bytes = InBlocks(parameters->bytes);
  const uint64_t address = memory.TakeAddresses(bytes);
  if (address == 0)
    return Error::kOutOfMemory;
  gpu_.contents_.Begin(memory.AddInPool(address, parameters->bytes, nullptr));
  memory_[device].blocks[address] = {.bytes = bytes, .references = 1};
  parameters->address = reinterpret_cast<void*>(address);
  return Error::kSuccess;
}

void ProcessGraphs::DropBlock(uint64_t address) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(address, &device);
  if (block->references > 0 || block->allocated)
    return;
  DeviceMemory& memory = gpu_.contents_.memory(device);
  memory.RemoveFromPool(memory.Find(address));
  memory.GiveBackAddresses(address, block->bytes);
  memory_[device].blocks.erase(address);
}

void ProcessGraphs::CountMemory(const Graph& graph, int change) {
  for (const auto& node : graph.nodes()) {
    const auto* taken = std::get_if<AllocationParameters>(&node->content);
    if (taken == nullptr)
      continue;
    int device = 0;
    FindBlock(Address(taken->address), &device)->references += change;
    DropBlock(Address(taken->address));
  }
}

Error ProcessGraphs::CheckFreed(const void* address) {
  int device = 0;
  return FindBlock(Address(address), &device) == nullptr ? Error::kInvalidValue
                                                         : Error::kSuccess;
}

Error ProcessGraphs::CaptureAllocation(Stream* stream, uint64_t bytes, void** address) {
  AllocationParameters parameters{.device = stream->device, .bytes = bytes};
  VRANK_RETURN_IF_FAILED(TakeAddress(&parameters));
  *address = parameters.address;
  return Capture(stream, parameters);
}

Error ProcessGraphs::CaptureFree(Stream* stream, void* address) {
  VRANK_RETURN_IF_FAILED(CheckFreed(address));
  return Capture(stream, FreeParameters{address});
}

// Takes from the device what the launch needs at most beyond what the pool holds.
Error ProcessGraphs::TakeMemory(const GraphExec& exec) {
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
  gpu_.LookAtOthers(device, more, nullptr);
  const bool there = gpu_.Account(
      device, kProgram, [&] { return gpu_.contents_.memory(device).TakeHidden(more); });
  if (!there)
    return Error::kOutOfMemory;
  if (gpu_.activity_.listening()) [[unlikely]]
    gpu_.NoteChange(device, kProgram);
  pool.reserved += more;
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  pool.used_high = std::max(pool.used_high, pool.reserved);
  return Error::kSuccess;
}

void ProcessGraphs::BeginMemory(const AllocationParameters& taken) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(Address(taken.address), &device);
  memory_[device].Use(block);
  gpu_.contents_.Begin(gpu_.contents_.Find(Address(taken.address)));
}

bool ProcessGraphs::FreeGraphMemory(uint64_t address) {
  int device = 0;
  GraphMemory::Block* const block = FindBlock(address, &device);
  if (block == nullptr)
    return false;
  memory_[device].Drop(block);
  DropBlock(address);
  return true;
}

Error ProcessGraphs::TrimMemory(int device) {
  VRANK_RETURN_IF_FAILED(gpu_.EnsureContext(device));
  ProcessGpu::Lock lock(gpu_.mutex_);
  gpu_.channel_->Spend(HostCost::kMalloc);
  GraphMemory& pool = memory_[device];
  gpu_.Account(device, kProgram, [&] {
    gpu_.contents_.memory(device).GiveBackHidden(pool.reserved - pool.used);
  });
  if (gpu_.activity_.listening()) [[unlikely]]
    gpu_.NoteChange(device, kProgram);
  pool.reserved = pool.used;
  return Error::kSuccess;
}

Error ProcessGraphs::GetMemoryAttribute(int device, GraphMemoryAttribute attribute,
                                        uint64_t* value) {
  VRANK_RETURN_IF_FAILED(gpu_.EnsureContext(device));
  ProcessGpu::Lock lock(gpu_.mutex_);
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

Error ProcessGraphs::ResetMemoryAttribute(int device, GraphMemoryAttribute attribute) {
  VRANK_RETURN_IF_FAILED(gpu_.EnsureContext(device));
  ProcessGpu::Lock lock(gpu_.mutex_);
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
