// Device memory, stream-ordered memory, page-locked host memory.

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"

namespace vrank::gpu {
namespace {

constexpr auto kProgram = protocol::MemoryOwner::kProgram;

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

Error ProcessGpu::Allocate(uint64_t bytes, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  channel_->Spend(HostCost::kMalloc);
  LookAtOthers(device, bytes, &lock);
  Allocation* made = Account(device, kProgram, [&] {
    return contents_.memory(device).Allocate(bytes, kProgram);
  });
  if (made == nullptr)
    return Error::kOutOfMemory;
  if (activity_.listening()) [[unlikely]]
    NoteMemory(MemoryOf(*made, device), account_delta_);
  contents_.Begin(made);
  *address = reinterpret_cast<void*>(made->base);
  return Error::kSuccess;
}

Error ProcessGpu::Free(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  if (address == nullptr)
    return Error::kSuccess;
  auto find = [&] {
    Allocation* found = contents_.Find(Address(address));
    return found != nullptr && found->base == Address(address) && !found->shared
               ? found
               : nullptr;
  };
  if (find() == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  device = contents_.DeviceOf(Address(address));
  PendingWait wait = WaitForDevice(device);
  VRANK_RETURN_IF_FAILED(PerformForDevice(&wait, &lock, device));
  Allocation* gone = find();  // again: the lock was given back
  if (gone == nullptr)
    return Error::kInvalidValue;
  if (graphs_.FreeGraphMemory(gone->base))
    return Error::kSuccess;
  Release(gone, device, nullptr);
  TrimPools();
  return Error::kSuccess;
}

Error ProcessGpu::GetDeviceMemoryInfo(DeviceMemoryInfo* info) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  channel_->Spend(HostCost::kAttribute);
  LookAtOthers(device, 0, &lock);
  const DeviceMemory& memory = contents_.memory(device);
  *info = {memory.left(), memory.capacity(), memory.used()};
  return Error::kSuccess;
}

Error ProcessGpu::GetNodeDeviceHeldBytes(int node_device, uint64_t* bytes) {
  *bytes = 0;
  VRANK_RETURN_IF_FAILED(Reachable());
  {
    Lock lock(mutex_);
    if (!claimed_ || node_device < 0 || channel_->settings().local_world_size < 2)
      return Error::kSuccess;
  }
  *bytes = AskMemory(node_device, 0, false);
  return Error::kSuccess;
}

// The emulator answers once every other process of the node has come to this time of
// its own clock, or can do nothing before.
uint64_t ProcessGpu::AskMemory(int node_device, uint64_t bytes, bool begins_sharing) {
  protocol::AskMemory question{};
  question.record.kind = protocol::RecordKind::kAskMemory;
  question.device = static_cast<uint32_t>(node_device);
  question.bytes = bytes;
  question.begins_sharing = begins_sharing ? 1 : 0;
  return channel_->Ask(question).value;
}

void ProcessGpu::LookAtOthers(int device, uint64_t bytes, Lock* lock) {
  const int node_device = NodeDevice(device);
  if (!channel_->SharesGpu(static_cast<uint32_t>(node_device))) [[likely]]
    return;
  // Other threads of the process may want the lock while it waits.
  if (lock != nullptr)
    lock->unlock();
  const uint64_t held =
      AskMemory(node_device, RoundUp(bytes, DeviceMemory::kBlock), false);
  if (lock != nullptr)
    lock->lock();
  contents_.memory(device).SetHeldByOthers(held);
}

Error ProcessGpu::GetPointerInfo(const void* pointer, PointerInfo* info) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  channel_->Spend(HostCost::kAttribute);
  *info = {};
  void* address = const_cast<void*>(pointer);
  if (const Allocation* found = contents_.Find(Address(pointer))) {
    info->kind = MemoryKind::kDevice;
    info->device = contents_.DeviceOf(Address(pointer));
    info->base = found->base;
    info->bytes = found->bytes;
    info->buffer_id = found->id;
    info->device_pointer = address;
    info->pool = found->pool == nullptr ? nullptr : found->pool->handle;
  } else if (const HostBlock* block = host_memory_.Find(Address(pointer))) {
    info->kind = MemoryKind::kHost;
    info->device = CurrentDevice() < 0 ? 0 : CurrentDevice();
    info->base = block->base;
    info->bytes = block->bytes;
    info->buffer_id = block->id;
    info->host_pointer = info->device_pointer = address;
    info->host_flags = block->flags;
    info->registered = block->registered;
  }
  return Error::kSuccess;
}

ActivityMemory ProcessGpu::MemoryOf(const Allocation& allocation, int device) {
  ActivityMemory memory;
  memory.owner = allocation.owner;
  memory.device = static_cast<uint32_t>(device);
  memory.is_async = allocation.pool != nullptr;
  memory.address = allocation.base;
  memory.bytes = allocation.bytes;
  return memory;
}

void ProcessGpu::Release(Allocation* gone, int device, Stream* on) {
  ActivityMemory memory = MemoryOf(*gone, device);
  account_delta_ = 0;
  if (gone->pool != nullptr)
    gone->pool->Free(gone, on);
  else
    Account(device, gone->owner, [&] { contents_.memory(device).Free(gone); });
  if (!activity_.listening()) [[likely]]
    return;
  memory.release = true;
  memory.stream = on == nullptr ? 0 : NumberOf(*on);
  NoteMemory(memory, account_delta_);
}

// --- Stream-ordered memory -----------------------------------------------------------

Pool* ProcessGpu::FindPool(void* handle) {
  Pool* const found = pools_.Find(handle);
  return found == nullptr || found->destroyed ? nullptr : found;
}

Pool* ProcessGpu::MakePool(int device, uint64_t max_bytes) {
  auto made =
      std::make_unique<Pool>(&contents_.memory(device), &lanes_, device, max_bytes);
  Pool* raw = made.get();
  raw->handle = pools_.Add(std::move(made));
  return raw;
}

Error ProcessGpu::AllocateAsync(uint64_t bytes, void* handle, void* stream,
                                void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(BeginOn(stream, &on));
  Pool* pool = handle == nullptr ? context(on->device).current_pool : FindPool(handle);
  if (pool == nullptr)
    return Error::kInvalidValue;
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.CaptureAllocation(on, bytes, address);
  channel_->Spend(HostCost::kPoolMalloc);
  LookAtOthers(pool->device, bytes, nullptr);
  const uint64_t reserved = pool->reserved;
  Allocation* made =
      Account(pool->device, kProgram, [&] { return pool->Allocate(bytes, on); });
  if (pool->reserved > reserved)
    channel_->Count(LossId::kPoolChunks, pool->reserved - reserved);
  if (made == nullptr)
    return Error::kOutOfMemory;
  if (activity_.listening()) [[unlikely]] {
    ActivityMemory memory = MemoryOf(*made, pool->device);
    memory.stream = NumberOf(*on);
    NoteMemory(memory, account_delta_);
  }
  contents_.Begin(made);
  *address = reinterpret_cast<void*>(made->base);
  return Error::kSuccess;
}

Error ProcessGpu::FreeAsync(void* address, void* stream) {
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(BeginOn(stream, &on));
  if (address == nullptr)
    return Error::kSuccess;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.CaptureFree(on, address);
  Allocation* gone = contents_.Find(Address(address));
  if (gone == nullptr || gone->base != Address(address) || gone->shared)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kPoolMalloc);
  if (graphs_.FreeGraphMemory(gone->base))
    return Error::kSuccess;
  Release(gone, contents_.DeviceOf(Address(address)), on);
  return Error::kSuccess;
}

Error ProcessGpu::CreatePool(int device, uint64_t max_bytes, void** pool) {
  VRANK_RETURN_IF_FAILED(EnsureContext(device));
  Lock lock(mutex_);
  channel_->Spend(HostCost::kCreate);
  *pool = MakePool(device, max_bytes)->handle;
  return Error::kSuccess;
}

Error ProcessGpu::DestroyPool(void* handle) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
  if (pool == nullptr || pool->is_default)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kCreate);
  Context& owner = context(pool->device);
  if (owner.current_pool == pool)
    owner.current_pool = owner.default_pool;
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

// A device has its pools before it has a context, and asking for them makes none (seen
// on an H200 with driver 580). REQUIRES: the lock.
ProcessGpu::Context& ProcessGpu::WithPools(int device) {
  Context& owner = context(device);
  if (owner.default_pool == nullptr) {
    owner.default_pool = owner.current_pool = MakePool(device, 0);
    owner.default_pool->is_default = true;
  }
  return owner;
}

Error ProcessGpu::DefaultPool(int device, void** pool) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  *pool = WithPools(device).default_pool->handle;
  return Error::kSuccess;
}

Error ProcessGpu::CurrentPool(int device, void** pool) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  *pool = WithPools(device).current_pool->handle;
  return Error::kSuccess;
}

Error ProcessGpu::SetCurrentPool(int device, void* handle) {
  VRANK_RETURN_IF_FAILED(Ready());
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
  if (pool == nullptr || pool->device != device)
    return Error::kInvalidValue;
  WithPools(device).current_pool = pool;
  return Error::kSuccess;
}

Error ProcessGpu::TrimPool(void* handle, uint64_t keep_bytes) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
  if (pool == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  Shrink(pool, keep_bytes);
  return Error::kSuccess;
}

Error ProcessGpu::SetPoolAccess(void* handle, int device, MemoryAccess access) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
  if (pool == nullptr || !IsAccess(access))
    return Error::kInvalidValue;
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  // The device that the memory is on keeps its access.
  if (device == pool->device)
    return access == MemoryAccess::kReadWrite ? Error::kSuccess : Error::kInvalidValue;
  pool->access[device] = access;
  return Error::kSuccess;
}

Error ProcessGpu::GetPoolAccess(void* handle, int device, MemoryAccess* access) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  const Pool* pool = FindPool(handle);
  if (pool == nullptr || access == nullptr)
    return Error::kInvalidValue;
  if (device < 0 || device >= DeviceCount())
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  const auto set = pool->access.find(device);
  *access = device == pool->device      ? MemoryAccess::kReadWrite
            : set != pool->access.end() ? set->second
                                        : MemoryAccess::kNone;
  return Error::kSuccess;
}

Error ProcessGpu::GetPoolAttribute(void* handle, PoolAttribute attribute,
                                   uint64_t* value) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
  const uint64_t* row = pool == nullptr ? nullptr : pool->Attribute(attribute);
  if (row == nullptr || value == nullptr)
    return Error::kInvalidValue;
  *value = *row;
  return Error::kSuccess;
}

Error ProcessGpu::SetPoolAttribute(void* handle, PoolAttribute attribute,
                                   uint64_t value) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  Pool* pool = FindPool(handle);
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

// --- Page-locked host memory
// -------------------------------------------------------------

Error ProcessGpu::AllocateHost(uint64_t bytes, unsigned flags, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  channel_->Spend(HostCost::kMalloc);
  const HostBlock* block = host_memory_.Allocate(bytes, flags);
  if (block == nullptr)
    return Error::kOutOfMemory;
  if (activity_.listening()) [[unlikely]]
    NoteHostMemory(false, block->base, block->bytes);
  *address = reinterpret_cast<void*>(block->base);
  return Error::kSuccess;
}

Error ProcessGpu::FreeHost(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  if (address == nullptr)
    return Error::kSuccess;
  const HostBlock* block = host_memory_.Find(Address(address));
  if (block == nullptr || block->base != Address(address) || block->registered)
    return Error::kInvalidValue;
  const uint64_t bytes = block->bytes;
  channel_->Spend(HostCost::kMalloc);
  PendingWait wait = WaitForDevice(device);
  VRANK_RETURN_IF_FAILED(PerformForDevice(&wait, &lock, device));
  if (activity_.listening()) [[unlikely]]
    NoteHostMemory(true, Address(address), bytes);
  return host_memory_.Free(Address(address));
}

Error ProcessGpu::RegisterHost(void* address, uint64_t bytes, unsigned flags) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  if (address == nullptr || bytes == 0 || contents_.DeviceOf(Address(address)) >= 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  return host_memory_.Register(Address(address), bytes, flags);
}

Error ProcessGpu::UnregisterHost(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  VRANK_RETURN_IF_FAILED(graphs_.CheckSafe());
  channel_->Spend(HostCost::kMalloc);
  PendingWait wait = WaitForDevice(device);
  VRANK_RETURN_IF_FAILED(PerformForDevice(&wait, &lock, device));
  return host_memory_.Unregister(Address(address));
}

}  // namespace vrank::gpu
