// Virtual memory management: addresses and memory apart.
//
// A reservation is one Allocation whose blocks have memory where something is mapped,
// so that a tensor may span mappings. Physical memory counts as used from its creation
// on.

#include <vector>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"

namespace vrank::gpu {
namespace {

constexpr auto kProgram = protocol::MemoryOwner::kProgram;

bool IsWhole(uint64_t bytes) {
  return bytes != 0 && bytes % DeviceMemory::kBlock == 0;
}

}  // namespace

Error ProcessGpu::CreatePhysical(int device, uint64_t bytes, uint64_t* handle) {
  VRANK_RETURN_IF_FAILED(EnsureContext(device));
  if (!IsWhole(bytes))
    return Error::kInvalidValue;
  Lock lock(mutex_);
  channel_->Spend(HostCost::kMalloc);
  DeviceMemory& memory = contents_.memory(device);
  if (!Account(device, kProgram, [&] { return memory.TakeHidden(bytes); }))
    return Error::kOutOfMemory;
  if (activity_.listening()) [[unlikely]]
    NoteChange(device, kProgram);
  auto made = std::make_unique<Physical>();
  made->device = device;
  made->bytes = bytes;
  *handle = reinterpret_cast<uint64_t>(physical_.Add(std::move(made)));
  return Error::kSuccess;
}

// Gives the memory back once nobody refers to it.
void ProcessGpu::ReturnPhysical(uint64_t handle) {
  void* key = reinterpret_cast<void*>(handle);
  const Physical* physical = physical_.Find(key);
  if (!physical->released || physical->mapped_at != 0)
    return;
  const int device = physical->device;
  if (!physical->shared) {
    Account(device, kProgram,
            [&] { contents_.memory(device).GiveBackHidden(physical->bytes); });
    if (activity_.listening()) [[unlikely]]
      NoteChange(device, kProgram);
  }
  physical_.Remove(key);
}

Error ProcessGpu::ReleasePhysical(uint64_t handle) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr || physical->released)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  physical->released = true;
  ReturnPhysical(handle);
  return Error::kSuccess;
}

Error ProcessGpu::FindPhysical(uint64_t handle, int* device, uint64_t* bytes) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  const Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr)
    return Error::kInvalidValue;
  *device = physical->device;
  *bytes = physical->bytes;
  return Error::kSuccess;
}

Error ProcessGpu::ReserveAddresses(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                                   uint64_t* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  if (!IsWhole(bytes) || (alignment & (alignment - 1)) != 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  const Allocation* made = contents_.memory(device).Reserve(bytes, alignment, wanted);
  if (made == nullptr)
    return Error::kOutOfMemory;
  *address = made->base;
  return Error::kSuccess;
}

Error ProcessGpu::FreeAddresses(uint64_t address, uint64_t bytes) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  const int device = contents_.DeviceOf(address);
  Allocation* found =
      device < 0 ? nullptr : contents_.memory(device).FindReservation(address);
  if (found == nullptr || found->base != address || found->bytes != bytes)
    return Error::kInvalidValue;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  contents_.memory(device).Release(found);
  return Error::kSuccess;
}

Error ProcessGpu::Map(uint64_t address, uint64_t bytes, uint64_t handle) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  const int device = contents_.DeviceOf(address);
  Allocation* reservation =
      device < 0 ? nullptr : contents_.memory(device).FindReservation(address);
  if (physical == nullptr || reservation == nullptr || bytes != physical->bytes ||
      address % DeviceMemory::kBlock != 0 ||
      bytes > reservation->bytes - (address - reservation->base))
    return Error::kInvalidValue;
  // Contents belong to addresses: one memory at two of them, or of another device,
  // would need them to belong to memory.
  if (physical->mapped_at != 0 || physical->device != device)
    return Error::kNotSupported;
  if (!contents_.memory(device).Map(reservation, address, bytes))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  physical->mapped_at = address;
  mappings_[address] = handle;
  contents_.Write(address, bytes,
                  physical->shared ? Origin::Computed(kOtherProcess) : Origin{});
  return Error::kSuccess;
}

Error ProcessGpu::Unmap(uint64_t address, uint64_t bytes) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  device = contents_.DeviceOf(address);
  Allocation* reservation =
      device < 0 ? nullptr : contents_.memory(device).FindReservation(address);
  // Whole mappings, as cuMemMap made them.
  auto covered = [&] {
    uint64_t at = address;
    for (auto it = mappings_.find(address);
         it != mappings_.end() && it->first == at && at < address + bytes; ++it)
      at += physical_.Find(reinterpret_cast<void*>(it->second))->bytes;
    return at == address + bytes;
  };
  if (reservation == nullptr || bytes == 0 || !covered())
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  PendingWait wait = WaitForDevice(device);
  VRANK_RETURN_IF_FAILED(PerformForDevice(&wait, &lock, device));
  if (!covered() || !contents_.memory(device).Unmap(reservation, address, bytes))
    return Error::kInvalidValue;
  for (auto it = mappings_.find(address);
       it != mappings_.end() && it->first < address + bytes;) {
    const uint64_t handle = it->second;
    physical_.Find(reinterpret_cast<void*>(handle))->mapped_at = 0;
    it = mappings_.erase(it);
    ReturnPhysical(handle);
  }
  return Error::kSuccess;
}

// Reservations, mappings and physical memory of a context that goes.
void ProcessGpu::DropMappings(int device) {
  DeviceMemory& memory = contents_.memory(device);
  std::vector<Allocation*> reservations;
  for (const auto& [base, allocation] : memory.allocations())
    if (allocation.reserved)
      reservations.push_back(memory.FindReservation(base));
  std::vector<uint64_t> handles;
  physical_.ForEach([&](void* handle, Physical& physical) {
    if (physical.device != device)
      return;
    if (physical.mapped_at != 0) {
      memory.Unmap(memory.FindReservation(physical.mapped_at), physical.mapped_at,
                   physical.bytes);
      mappings_.erase(physical.mapped_at);
      physical.mapped_at = 0;
    }
    physical.released = true;
    handles.push_back(reinterpret_cast<uint64_t>(handle));
  });
  for (const uint64_t handle : handles)
    ReturnPhysical(handle);
  for (Allocation* reservation : reservations)
    memory.Release(reservation);
}

Error ProcessGpu::CheckMapped(uint64_t address, uint64_t bytes) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  channel_->Spend(HostCost::kAttribute);
  return contents_.IsValid(address, bytes) ? Error::kSuccess : Error::kInvalidValue;
}

}  // namespace vrank::gpu
