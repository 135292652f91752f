// Memory and events of other processes (CUDA's IPC handles, exported memory).
//
// A process that opens a handle gets addresses of the same size on the same device, but
// no memory: that is the owner's and counted there. What the owner computes is not
// known here, so the contents count as computed elsewhere. When the other process's
// event happens is not known either: an opened event counts as ended until this process
// records it, and whoever waits for it is counted.
//
// A rank that is played has no process that could hand out a handle. Where programs
// exchange handles, its part is a copy of a real rank's, which may be the caller's own:
// CUDA refuses to open that, but here it stands for the played rank's, which is
// counted. Where all ranks are real it is refused as by CUDA.

#include <algorithm>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"

namespace vrank::gpu {

SharedHandle ProcessGpu::OwnHandle(SharedHandle::Kind kind, int device, uint64_t id,
                                   uint64_t bytes) {
  SharedHandle handle;
  handle.kind = kind;
  handle.rank = channel_->settings().rank;
  handle.node_device = static_cast<uint32_t>(NodeDevice(device));
  handle.id = id;
  handle.bytes = bytes;
  return handle;
}

// The handle can be opened; `device` is the current one.
Error ProcessGpu::BeginImport(const SharedHandle& handle, SharedHandle::Kind kind,
                              int* device) {
  VRANK_RETURN_IF_FAILED(Begin(device));
  if (handle.magic != SharedHandle::kMagic || handle.kind != kind)
    return Error::kInvalidValue;
  if (handle.rank == channel_->settings().rank) {
    if (channel_->settings().played_ranks == 0)
      return Error::kInvalidContext;
    channel_->Count(LossId::kPlayedHandles, 1);
  }
  return Error::kSuccess;
}

// Where memory of that device is seen: there, or, where it is not visible, on `device`.
int ProcessGpu::PlaceOf(const SharedHandle& handle, int device) {
  const std::vector<int>& shown = visible();
  const auto found =
      std::find(shown.begin(), shown.end(), static_cast<int>(handle.node_device));
  return found == shown.end() ? device : static_cast<int>(found - shown.begin());
}

Error ProcessGpu::ExportMemory(const void* address, SharedHandle* handle) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const auto at = reinterpret_cast<uint64_t>(address);
  const Allocation* found = contents_.Find(at);
  // As CUDA: what cudaMalloc gave, no pool's, no reservation's, nobody else's.
  if (handle == nullptr || found == nullptr || found->pool != nullptr ||
      found->reserved || found->shared)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *handle = OwnHandle(SharedHandle::Kind::kMemory, contents_.DeviceOf(at), found->id,
                      found->bytes);
  return Error::kSuccess;
}

Error ProcessGpu::ImportMemory(const SharedHandle& handle, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginImport(handle, SharedHandle::Kind::kMemory, &device));
  channel_->Spend(HostCost::kMalloc);
  auto opened =
      std::find_if(imported_.begin(), imported_.end(),
                   [&](const Imported& each) { return each.handle == handle; });
  if (opened == imported_.end()) {
    device = PlaceOf(handle, device);
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

Error ProcessGpu::CloseImported(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const auto at = reinterpret_cast<uint64_t>(address);
  const auto find = [&] {
    return std::find_if(imported_.begin(), imported_.end(),
                        [&](const Imported& each) { return each.address == at; });
  };
  auto closed = find();
  if (closed == imported_.end())
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  if (closed->opens > 1) {
    --closed->opens;
    return Error::kSuccess;
  }
  PendingWait wait = WaitForDevice(device);
  VRANK_RETURN_IF_FAILED(PerformForDevice(&wait, &lock, device));
  closed = find();  // again: the lock was given back
  if (closed == imported_.end())
    return Error::kInvalidValue;
  DeviceMemory& memory = contents_.memory(closed->device);
  memory.RemoveShared(memory.Find(at));
  imported_.erase(closed);
  return Error::kSuccess;
}

// What other processes own, of a context that goes.
void ProcessGpu::DropImported(int device) {
  std::erase_if(imported_, [&](const Imported& each) {
    if (each.device != device)
      return false;
    DeviceMemory& memory = contents_.memory(device);
    memory.RemoveShared(memory.Find(each.address));
    return true;
  });
}

Error ProcessGpu::ExportEvent(void* event, SharedHandle* handle) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const Event* found = events_.Find(event);
  if (found == nullptr)
    return Error::kInvalidHandle;
  if (handle == nullptr || (found->flags & kEventInterprocess) == 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *handle = OwnHandle(SharedHandle::Kind::kEvent, found->device, found->number, 0);
  return Error::kSuccess;
}

Error ProcessGpu::ImportEvent(const SharedHandle& handle, void** event) {
  if (event == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginImport(handle, SharedHandle::Kind::kEvent, &device));
  channel_->Spend(HostCost::kCreate);
  *event = AddEvent(kEventInterprocess | kEventDisableTiming, device);
  events_.Find(*event)->imported = true;
  return Error::kSuccess;
}

void ProcessGpu::NoteWaitFor(const Event& event) {
  if (event.imported && !event.recorded) [[unlikely]]
    channel_->Count(LossId::kForeignEvents, 1);
}

// --- Exported physical memory --------------------------------------------------------

Error ProcessGpu::ExportPhysical(uint64_t handle, SharedHandle* shared) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  const Physical* physical = physical_.Find(reinterpret_cast<void*>(handle));
  if (physical == nullptr || physical->references == 0 || physical->shared)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *shared = OwnHandle(SharedHandle::Kind::kPhysical, physical->device, handle,
                      physical->bytes);
  return Error::kSuccess;
}

ProcessGpu::Physical* ProcessGpu::FindOwnPhysical(const SharedHandle& shared) const {
  return shared.magic == SharedHandle::kMagic &&
                 shared.kind == SharedHandle::Kind::kPhysical &&
                 shared.rank == channel_->settings().rank
             ? physical_.Find(reinterpret_cast<void*>(shared.id))
             : nullptr;
}

Error ProcessGpu::ImportPhysical(const SharedHandle& shared, uint64_t* handle) {
  Lock lock(mutex_);
  int device = 0;
  // The caller's own, which CUDA refuses for IPC handles only.
  Physical* const own = FindOwnPhysical(shared);
  if (own != nullptr && channel_->settings().played_ranks == 0) {
    channel_->Spend(HostCost::kAttribute);
    ++own->references;
    *handle = shared.id;
    return Error::kSuccess;
  }
  VRANK_RETURN_IF_FAILED(BeginImport(shared, SharedHandle::Kind::kPhysical, &device));
  channel_->Spend(HostCost::kAttribute);
  auto made = std::make_unique<Physical>();
  made->device = PlaceOf(shared, device);
  made->bytes = shared.bytes;
  made->shared = true;
  *handle = reinterpret_cast<uint64_t>(physical_.Add(std::move(made)));
  return Error::kSuccess;
}

}  // namespace vrank::gpu
