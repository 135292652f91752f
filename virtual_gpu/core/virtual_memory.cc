#include "virtual_gpu/core/virtual_memory.h"

#include <memory>
#include <utility>
#include <vector>

namespace vrank::gpu {
namespace {

bool IsWhole(uint64_t bytes) {
  return bytes != 0 && bytes % DeviceMemory::kBlock == 0;
}

}  // namespace

Error VirtualMemory::Create(int device, uint64_t bytes, uint64_t* handle) {
  VRANK_RETURN_IF_FAILED(contexts_.Ensure(device));
  if (!IsWhole(bytes))
    return Error::kInvalidValue;
  ApiLock lock(mutex_);
  channel_->Spend(HostCost::kMalloc);
  accounting_.ReadOthers(device, bytes, &lock);
  DeviceMemory& memory = contents_.memory(device);
  if (!accounting_.RecordHidden(device, [&] { return memory.TakeHidden(bytes); }))
    return Error::kOutOfMemory;
  auto made = std::make_unique<Physical>();
  made->device = device;
  made->bytes = bytes;
  *handle = reinterpret_cast<uint64_t>(physical_.Add(std::move(made)));
  return Error::kSuccess;
}

void VirtualMemory::Return(uint64_t handle) {
  void* key = reinterpret_cast<void*>(handle);
  const Physical* physical = physical_.Find(key);
  if (physical->references != 0 || !physical->mapped.empty())
    return;
  const int device = physical->device;
  if (physical->parked != nullptr)
    contents_.memory(device).RemoveShared(physical->parked);
  if (!physical->shared)
    accounting_.RecordHidden(
        device, [&] { contents_.memory(device).GiveBackHidden(physical->bytes); });
  physical_.Remove(key);
}

Error VirtualMemory::Release(uint64_t handle) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr || physical->references == 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  --physical->references;
  Return(handle);
  return Error::kSuccess;
}

std::map<uint64_t, VirtualMemory::Mapping>::iterator VirtualMemory::FindMapping(
    uint64_t address) {
  auto found = mappings_.upper_bound(address);
  if (found == mappings_.begin())
    return mappings_.end();
  --found;
  return address - found->first < PhysicalOf(found->second)->bytes ? found
                                                                   : mappings_.end();
}

Error VirtualMemory::Retain(uint64_t address, uint64_t* handle) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const auto mapping = FindMapping(address);
  if (mapping == mappings_.end())
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  ++PhysicalOf(mapping->second)->references;
  *handle = mapping->second.handle;
  return Error::kSuccess;
}

Error VirtualMemory::Find(uint64_t handle, int* device, uint64_t* bytes) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr)
    return Error::kInvalidValue;
  *device = physical->device;
  *bytes = physical->bytes;
  return Error::kSuccess;
}

Error VirtualMemory::Reserve(uint64_t bytes, uint64_t alignment, uint64_t wanted,
                             uint64_t* address) {
  ApiLock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  if (!IsWhole(bytes) || (alignment & (alignment - 1)) != 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  const Allocation* made = contents_.memory(device).Reserve(bytes, alignment, wanted);
  if (made == nullptr)
    return Error::kOutOfMemory;
  *address = made->base;
  return Error::kSuccess;
}

Error VirtualMemory::FreeAddresses(uint64_t address, uint64_t bytes) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
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

Error VirtualMemory::Map(uint64_t address, uint64_t bytes, uint64_t handle) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  const int device = contents_.DeviceOf(address);
  Allocation* reservation =
      device < 0 ? nullptr : contents_.memory(device).FindReservation(address);
  if (physical == nullptr || physical->references == 0 || reservation == nullptr ||
      bytes != physical->bytes || address % DeviceMemory::kBlock != 0 ||
      bytes > reservation->bytes - (address - reservation->base))
    return Error::kInvalidValue;
  // An address tells its device.
  if (physical->device != device)
    return Error::kNotSupported;
  DeviceMemory& memory = contents_.memory(device);
  if (!memory.Map(reservation, address, bytes))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  bool copied = true;
  if (physical->parked != nullptr) {
    copied = contents_.CopyWithin(address, physical->parked->base, bytes);
    memory.RemoveShared(std::exchange(physical->parked, nullptr));
  } else if (physical->mapped.empty()) {
    contents_.Write(address, bytes,
                    physical->shared ? Origin::Computed(kOtherProcess) : Origin{});
  }
  for (const uint64_t other : physical->mapped)
    copied &= contents_.Join(other, address, bytes);
  physical->mapped.push_back(address);
  mappings_[address] = {handle, {}};
  return copied ? Error::kSuccess : Error::kOutOfMemory;
}

void VirtualMemory::Park(Physical* physical, uint64_t address) {
  DeviceMemory& memory = contents_.memory(physical->device);
  Allocation* const place = memory.AddShared(physical->bytes);
  if (place == nullptr)
    return;  // no addresses left: it will be unwritten, which is counted when it
             // is read
  contents_.Begin(place);
  if (contents_.CopyWithin(place->base, address, physical->bytes))
    physical->parked = place;
  else
    memory.RemoveShared(place);
}

bool VirtualMemory::IsMapped(uint64_t address, uint64_t bytes) const {
  uint64_t at = address;
  for (auto it = mappings_.find(address);
       it != mappings_.end() && it->first == at && at < address + bytes; ++it)
    at += PhysicalOf(it->second)->bytes;
  return bytes != 0 && at == address + bytes;
}

Error VirtualMemory::Unmap(uint64_t address, uint64_t bytes) {
  ApiLock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  device = contents_.DeviceOf(address);
  Allocation* reservation =
      device < 0 ? nullptr : contents_.memory(device).FindReservation(address);
  // Whole mappings, as cuMemMap made them.
  if (reservation == nullptr || !IsMapped(address, bytes))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  VRANK_RETURN_IF_FAILED(waits_.WaitForDevice(device, &lock));
  if (!IsMapped(address, bytes))  // again: the lock was given back
    return Error::kInvalidValue;
  for (auto it = mappings_.find(address);
       it != mappings_.end() && it->first < address + bytes;) {
    const uint64_t handle = it->second.handle;
    Physical* const physical = PhysicalOf(it->second);
    std::erase(physical->mapped, it->first);
    contents_.Part(it->first);
    if (physical->mapped.empty() && physical->references != 0)
      Park(physical, it->first);
    it = mappings_.erase(it);
    Return(handle);
  }
  contents_.memory(device).Unmap(reservation, address, bytes);
  return Error::kSuccess;
}

void VirtualMemory::Drop(int device) {
  DeviceMemory& memory = contents_.memory(device);
  std::vector<Allocation*> reservations;
  for (const auto& [base, allocation] : memory.allocations())
    if (allocation.reserved)
      reservations.push_back(memory.FindReservation(base));
  std::vector<uint64_t> handles;
  physical_.ForEach([&](void* handle, Physical& physical) {
    if (physical.device != device)
      return;
    for (const uint64_t address : physical.mapped) {
      contents_.Part(address);
      memory.Unmap(memory.FindReservation(address), address, physical.bytes);
      mappings_.erase(address);
    }
    physical.mapped.clear();
    physical.references = 0;
    handles.push_back(reinterpret_cast<uint64_t>(handle));
  });
  for (const uint64_t handle : handles)
    Return(handle);
  for (Allocation* reservation : reservations)
    memory.Release(reservation);
}

Error VirtualMemory::SetAccess(uint64_t address, uint64_t bytes, int device,
                               MemoryAccess access) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  if (!IsAccess(access) || !IsMapped(address, bytes))
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  for (auto it = mappings_.find(address);
       it != mappings_.end() && it->first < address + bytes; ++it)
    it->second.access[device] = access;
  return Error::kSuccess;
}

Error VirtualMemory::GetAccess(uint64_t address, int device, MemoryAccess* access) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const auto mapping = FindMapping(address);
  if (mapping == mappings_.end())
    return Error::kInvalidValue;
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  const auto set = mapping->second.access.find(device);
  *access = set == mapping->second.access.end() ? MemoryAccess::kNone : set->second;
  return Error::kSuccess;
}

Error VirtualMemory::Export(uint64_t handle, SharedHandle* shared) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  ApiLock lock(mutex_);
  const Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr || physical->references == 0 || physical->shared)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *shared = handles_.Make(SharedHandle::Kind::kPhysical, physical->device, handle,
                          physical->bytes);
  return Error::kSuccess;
}

Error VirtualMemory::Import(const SharedHandle& shared, uint64_t* handle) {
  ApiLock lock(mutex_);
  int device = 0;
  // The caller's own, which CUDA refuses for IPC handles only.
  Physical* const own = handles_.IsOwn(shared, SharedHandle::Kind::kPhysical)
                            ? physical_.Find(reinterpret_cast<void*>(shared.id))
                            : nullptr;
  if (own != nullptr && channel_->settings().played_ranks == 0) {
    channel_->Spend(HostCost::kAttribute);
    ++own->references;
    *handle = shared.id;
    return Error::kSuccess;
  }
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  VRANK_RETURN_IF_FAILED(handles_.Open(shared, SharedHandle::Kind::kPhysical));
  channel_->Spend(HostCost::kAttribute);
  auto made = std::make_unique<Physical>();
  made->device = handles_.PlaceOf(shared, device);
  made->bytes = shared.bytes;
  made->shared = true;
  *handle = reinterpret_cast<uint64_t>(physical_.Add(std::move(made)));
  return Error::kSuccess;
}

}  // namespace vrank::gpu
