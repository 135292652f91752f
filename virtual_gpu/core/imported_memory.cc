#include "virtual_gpu/core/imported_memory.h"

#include <algorithm>

namespace vrank::gpu {

Error ImportedMemory::Open(const SharedHandle& handle, int device, void** address) {
  channel_->Spend(HostCost::kMalloc);
  auto opened =
      std::find_if(imported_.begin(), imported_.end(),
                   [&](const Imported& each) { return each.handle == handle; });
  if (opened == imported_.end()) {
    device = handles_.PlaceOf(handle, device);
    Allocation* made = contents_.memory(device).AddShared(handle.bytes);
    if (made == nullptr)
      return Error::kOutOfMemory;
    contents_.Begin(made);
    contents_.Write(made->base, made->bytes, Origin::Computed(kOtherProcess));
    opened = imported_.insert(opened, {handle, device, made->base, 0});
  }
  ++opened->opens;
  *address = reinterpret_cast<void*>(opened->address);
  return Error::kSuccess;
}

std::vector<ImportedMemory::Imported>::iterator ImportedMemory::Find(uint64_t address) {
  return std::find_if(imported_.begin(), imported_.end(),
                      [&](const Imported& each) { return each.address == address; });
}

Error ImportedMemory::Close(void* address, int device, ApiLock* lock) {
  const auto at = reinterpret_cast<uint64_t>(address);
  auto closed = Find(at);
  if (closed == imported_.end())
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  if (closed->opens > 1) {
    --closed->opens;
    return Error::kSuccess;
  }
  VRANK_RETURN_IF_FAILED(waits_.WaitForDevice(device, lock));
  closed = Find(at);  // again: the lock was given back
  if (closed == imported_.end())
    return Error::kInvalidValue;
  DeviceMemory& memory = contents_.memory(closed->device);
  memory.RemoveShared(memory.Find(at));
  imported_.erase(closed);
  return Error::kSuccess;
}

void ImportedMemory::Drop(int device) {
  std::erase_if(imported_, [&](const Imported& each) {
    if (each.device != device)
      return false;
    DeviceMemory& memory = contents_.memory(device);
    memory.RemoveShared(memory.Find(each.address));
    return true;
  });
}

}  // namespace vrank::gpu
