#include "virtual_gpu/core/pools.h"

#include <memory>
#include <utility>

namespace vrank::gpu {

Pool* Pools::Find(void* handle) {
  Pool* const found = pools_.Find(handle);
  return found == nullptr || found->destroyed ? nullptr : found;
}

Pool* Pools::Make(int device, uint64_t max_bytes) {
  auto made =
      std::make_unique<Pool>(&contents_.memory(device), &lanes_, device, max_bytes);
  Pool* raw = made.get();
  raw->handle = pools_.Add(std::move(made));
  return raw;
}

Pools::OfDevice& Pools::Of(int device) {
  const auto index = static_cast<size_t>(device);
  if (index >= of_device_.size())
    of_device_.resize(index + 1);
  OfDevice& owner = of_device_[index];
  if (owner.standard == nullptr) {
    owner.standard = owner.current = Make(device, 0);
    owner.standard->is_default = true;
  }
  return owner;
}

void* Pools::Create(int device, uint64_t max_bytes) {
  channel_->Spend(HostCost::kCreate);
  return Make(device, max_bytes)->handle;
}

Error Pools::Destroy(void* handle) {
  Pool* pool = Find(handle);
  if (pool == nullptr || pool->is_default)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kCreate);
  OfDevice& owner = Of(pool->device);
  if (owner.current == pool)
    owner.current = owner.standard;
  // "If any pointers obtained from this pool haven't been freed or the pool has free
  // operations that haven't completed [...], the function will return immediately and
  // the resources associated with the pool will be released automatically once there
  // are no more outstanding allocations."
  pool->destroyed = true;
  pool->release_threshold = 0;
  Shrink(pool, 0);
  if (pool->gone())
    pools_.Remove(handle);
  return Error::kSuccess;
}

Error Pools::SetCurrent(int device, void* handle) {
  Pool* pool = Find(handle);
  if (pool == nullptr || pool->device != device)
    return Error::kInvalidValue;
  Of(device).current = pool;
  return Error::kSuccess;
}

Error Pools::Trim(void* handle, uint64_t keep_bytes) {
  Pool* pool = Find(handle);
  if (pool == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  Shrink(pool, keep_bytes);
  return Error::kSuccess;
}

Error Pools::SetAccess(void* handle, int device, MemoryAccess access) {
  Pool* pool = Find(handle);
  if (pool == nullptr || !IsAccess(access))
    return Error::kInvalidValue;
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  // The device that the memory is on keeps its access.
  if (device == pool->device)
    return access == MemoryAccess::kReadWrite ? Error::kSuccess : Error::kInvalidValue;
  pool->access[device] = access;
  return Error::kSuccess;
}

Error Pools::GetAccess(void* handle, int device, MemoryAccess* access) {
  const Pool* pool = Find(handle);
  if (pool == nullptr || access == nullptr)
    return Error::kInvalidValue;
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  const auto set = pool->access.find(device);
  *access = device == pool->device      ? MemoryAccess::kReadWrite
            : set != pool->access.end() ? set->second
                                        : MemoryAccess::kNone;
  return Error::kSuccess;
}

Error Pools::GetAttribute(void* handle, PoolAttribute attribute, uint64_t* value) {
  Pool* pool = Find(handle);
  const uint64_t* row = pool == nullptr ? nullptr : pool->Attribute(attribute);
  if (row == nullptr || value == nullptr)
    return Error::kInvalidValue;
  *value = *row;
  return Error::kSuccess;
}

Error Pools::SetAttribute(void* handle, PoolAttribute attribute, uint64_t value) {
  Pool* pool = Find(handle);
  uint64_t* row = pool == nullptr ? nullptr : pool->Attribute(attribute);
  const bool is_high = attribute == PoolAttribute::kReservedHigh ||
                       attribute == PoolAttribute::kUsedHigh;
  // The two high-water marks can only be reset; what is now can only be read.
  if (row == nullptr || (is_high && value != 0) ||
      attribute == PoolAttribute::kReservedCurrent ||
      attribute == PoolAttribute::kUsedCurrent)
    return Error::kInvalidValue;
  *row = value;
  if (attribute == PoolAttribute::kReservedHigh)
    *row = pool->reserved;
  if (attribute == PoolAttribute::kUsedHigh)
    *row = pool->used;
  return Error::kSuccess;
}

void Pools::Shrink(Pool* pool, uint64_t keep) {
  accounting_.RecordHidden(pool->device, [&] { pool->Trim(keep); });
}

void Pools::TrimAll() {
  std::vector<void*> gone;
  pools_.ForEach([&](void* handle, Pool& pool) {
    if (pool.reserved > pool.release_threshold)
      Shrink(&pool, pool.release_threshold);
    if (pool.gone()) [[unlikely]]
      gone.push_back(handle);
  });
  for (void* handle : gone)
    pools_.Remove(handle);
}

void Pools::Drop(int device) {
  std::vector<void*> gone;
  pools_.ForEach([&](void* handle, Pool& pool) {
    if (pool.device != device)
      return;
    accounting_.RecordHidden(device, [&] { pool.Clear(); });
    gone.push_back(handle);
  });
  for (void* handle : gone)
    pools_.Remove(handle);
  of_device_[static_cast<size_t>(device)] = {};
}

}  // namespace vrank::gpu
