#include "virtual_gpu/core/process_gpu.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "virtual_gpu/core/launch_rules.h"
#include "virtual_gpu/core/library_calls.h"

namespace vrank::gpu {
namespace {

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

ProcessGpu::ProcessGpu(Channel* channel)
    : channel_(channel),
      activity_(channel, [this] { Introduce(); }),
      notes_(activity_),
      devices_(channel, mutex_),
      contents_(channel),
      lanes_(channel),
      obligations_(channel,
                   [this](unsigned char* to, uint64_t bytes) {
                     contents_.WriteComputed(Origin::Computed(""), to, bytes);
                   }),
      accounting_(channel, devices_, contents_, notes_),
      pools_(channel, devices_, contents_, lanes_, accounting_),
      contexts_(channel, mutex_, devices_, contents_, pools_, accounting_, activity_,
                notes_),
      waits_(channel, lanes_, obligations_, pools_, notes_),
      streams_(channel, contexts_, lanes_, captures_, obligations_, waits_, notes_),
      events_(channel, lanes_, captures_, obligations_, pools_, notes_),
      kernels_(channel),
      effects_(channel, contents_, obligations_),
      launches_(channel, kernels_, effects_, accounting_, obligations_, notes_),
      copies_(channel, contents_, host_memory_, obligations_, notes_),
      allocator_(channel, contents_, accounting_, notes_),
      shared_handles_(channel, devices_),
      imported_(channel, contents_, shared_handles_, waits_),
      virtual_memory_(channel, mutex_, devices_, contexts_, contents_, accounting_,
                      shared_handles_, waits_),
      library_memory_(devices_, contents_, obligations_, copies_),
      graphs_({.channel = channel,
               .lock = mutex_,
               .devices = devices_,
               .contexts = contexts_,
               .streams = streams_,
               .captures = captures_,
               .lanes = lanes_,
               .contents = contents_,
               .events = events_,
               .obligations = obligations_,
               .kernels = kernels_,
               .effects = effects_,
               .launches = launches_,
               .copies = copies_,
               .libraries = library_memory_,
               .accounting = accounting_,
               .recorder = activity_,
               .notes = notes_}),
      libraries_(mutex_, devices_, contexts_, streams_, lanes_, contents_, host_memory_,
                 library_memory_, allocator_, graphs_.capture(), activity_, notes_) {
  if (channel == nullptr)
    return;
  const protocol::Settings& settings = channel->settings();
  for (uint32_t i = 0; i < settings.devices; ++i)
    contents_.AddDevice(
        std::make_unique<DeviceMemory>(static_cast<int>(i), settings.gpu.memory_bytes));
}

void ProcessGpu::SetValuePolicy(ValuePolicy policy) {
  Lock lock(mutex_);
  contents_.SetValuePolicy(std::move(policy));
}

void ProcessGpu::Introduce() {
  Lock lock(mutex_);
  if (!contexts_.claimed())
    return;
  for (int device = 0; device < devices_.Count(); ++device) {
    if (!contexts_.IsActive(device))
      continue;
    activity_.TellContextNow(ActivityNotes::ContextOf(device),
                             ActivityNotes::ContextHandle(device), true);
    for (Stream* stream : lanes_.OfDevice(device))
      if (!stream->internal)
        notes_.StreamChange(stream, false);
  }
}

Error ProcessGpu::BeginUnsafe(int* device) {
  VRANK_RETURN_IF_FAILED(contexts_.Begin(device));
  return captures_.CheckSafe();
}

// --- Devices and contexts
// ------------------------------------------------------------

int ProcessGpu::FindNodeDeviceInUse(int node_device) {
  Lock lock(mutex_);
  if (!contexts_.claimed())
    return -1;
  for (int device = 0; device < devices_.Count(); ++device)
    if (devices_.NodeDevice(device) == node_device && contexts_.IsActive(device))
      return device;
  return -1;
}

bool ProcessGpu::ContextIsActive(int device) {
  Lock lock(mutex_);
  return devices_.Has(device) && contexts_.IsActive(device);
}

Error ProcessGpu::DestroyContext(int device) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  channel_->Spend(HostCost::kMalloc);
  if (!contexts_.IsActive(device))
    return Error::kSuccess;
  (void)waits_.WaitForDevice(device, &lock);  // its work goes with it
  virtual_memory_.Drop(device);
  imported_.Drop(device);
  allocator_.Drop(device);
  pools_.Drop(device);
  events_.Drop(device);
  if (notes_.listening()) [[unlikely]] {
    for (Stream* stream : lanes_.OfDevice(device))
      notes_.StreamChange(stream, true);
  }
  graphs_.ForgetDevice(device);
  lanes_.DestroyAll(device);
  contexts_.End(device);
  return Error::kSuccess;
}

Error ProcessGpu::SynchronizeDevice() {
  CallScope call(activity_.TapOutsideCalls(), true, kLibrarySynchronize);
  Lock lock(mutex_);
  int device = 0;
  if (const Error error = contexts_.Begin(&device); error != Error::kSuccess)
    return call.Leave(error);
  if (const Error error = captures_.CheckDeviceWait(device); error != Error::kSuccess)
    return call.Leave(error);
  channel_->Spend(HostCost::kSynchronize);
  return waits_.WaitForDevice(device, &lock);
}

Error ProcessGpu::EnablePeerAccess(int peer) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  if (!devices_.Has(peer) || peer == device)
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  return contexts_.EnablePeer(device, peer);
}

Error ProcessGpu::DisablePeerAccess(int peer) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  if (!devices_.Has(peer))
    return Error::kInvalidDevice;
  channel_->Spend(HostCost::kAttribute);
  return contexts_.DisablePeer(device, peer);
}

// --- Streams
// -------------------------------------------------------------------------

Error ProcessGpu::CreateStream(unsigned flags, int priority, void** stream) {
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  void* const made = streams_.Create(device, flags, priority);
  if (made == nullptr)
    return Error::kOutOfMemory;
  *stream = made;
  return Error::kSuccess;
}

Error ProcessGpu::DestroyStream(void* stream) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  if (stream == nullptr || stream == kLegacyStream || stream == kPerThreadStream)
    return Error::kInvalidHandle;
  Stream* found = lanes_.Find(stream, 0);
  if (found == nullptr)
    return Error::kInvalidHandle;
  channel_->Spend(HostCost::kCreate);
  if (notes_.listening()) [[unlikely]]
    notes_.StreamChange(found, true);
  if (found->capture != nullptr) [[unlikely]]
    graphs_.capture().ForgetStream(found);
  const int device = found->device;
  lanes_.Destroy(found);
  contexts_.GiveBackStream(device);
  return Error::kSuccess;
}

Error ProcessGpu::SynchronizeStream(void* handle) {
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(handle, &stream));
  return streams_.Synchronize(stream, &lock);
}

Error ProcessGpu::QueryStream(void* handle) {
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  return streams_.Query(stream, &lock);
}

Error ProcessGpu::StreamWaitEvent(void* handle, void* event, bool external) {
  Lock lock(mutex_);
  Stream* waiting = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(handle, &waiting));
  const Event* awaited = events_.Find(event);
  if (awaited == nullptr)
    return Error::kInvalidHandle;
  if (waiting->capture != nullptr || awaited->capture != 0) [[unlikely]]
    return graphs_.capture().CaptureWait(waiting, *awaited, event, external);
  channel_->Spend(HostCost::kStreamWait);
  events_.OrderBehind(waiting, *awaited);
  return Error::kSuccess;
}

Error ProcessGpu::GetStreamInfo(void* handle, StreamInfo* info) {
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.Find(handle, &stream));
  channel_->Spend(HostCost::kAttribute);
  *info = {stream->device, stream->flags, stream->priority, stream->id};
  return Error::kSuccess;
}

// --- Events
// --------------------------------------------------------------------------

Error ProcessGpu::CreateEvent(unsigned flags, void** event) {
  constexpr unsigned kKnown =
      kEventBlockingSync | kEventDisableTiming | kEventInterprocess;
  const bool is_shared = (flags & kEventInterprocess) != 0;
  if (event == nullptr || (flags & ~kKnown) != 0 ||
      (is_shared && (flags & kEventDisableTiming) == 0))
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  channel_->Spend(HostCost::kCreate);
  *event = events_.Add(flags, device);
  return Error::kSuccess;
}

Error ProcessGpu::DestroyEvent(void* event) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return events_.Destroy(event);
}

Error ProcessGpu::RecordEvent(void* event, void* stream, bool external) {
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginBeside(stream, &on));
  Event* recorded = events_.Find(event);
  if (recorded == nullptr || recorded->device != on->device)
    return Error::kInvalidHandle;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.capture().CaptureRecord(on, recorded, event, external);
  channel_->Spend(HostCost::kEventRecord);
  lanes_.Before(on);
  events_.Record(on, recorded, 0);
  return Error::kSuccess;
}

Error ProcessGpu::SynchronizeEvent(void* event) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  return events_.Synchronize(event, &lock);
}

Error ProcessGpu::QueryEvent(void* event) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  return events_.Query(event, &lock);
}

Error ProcessGpu::ElapsedNanoseconds(void* start, void* end, int64_t* elapsed) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  return events_.Elapsed(start, end, elapsed, &lock);
}

// --- Work
// ----------------------------------------------------------------------------

Error ProcessGpu::LaunchKernel(const KernelLaunch& launch) {
  VRANK_RETURN_IF_FAILED(devices_.Reachable());
  VRANK_RETURN_IF_FAILED(CheckLaunch(channel_->settings().gpu, launch));
  CallScope call(activity_.TapOutsideCalls(), true, kLibraryLaunch);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  if (const Error error = streams_.BeginOn(launch.stream, &stream);
      error != Error::kSuccess)
    return call.Leave(error);
  if (stream->device != Devices::Current())
    return call.Leave(Error::kInvalidHandle);
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.capture().Capture(stream, KernelContent(launch));
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  launches_.EmitKernel(*stream, launch, 0);
  lanes_.After(stream);
  if (!effects_.Apply(launch)) [[unlikely]]
    return call.Leave(FailAssertion(stream, effects_.TakeAssertion()));
  return Error::kSuccess;
}

// As on a GPU, the host finds out when it waits; a launch that waits is one of
// CUDA_LAUNCH_BLOCKING (CUDA C++ Programming Guide, "CUDA Environment Variables").
Error ProcessGpu::FailAssertion(Stream* stream, std::string said) {
  const uint64_t id = obligations_.AddFailure([this, said = std::move(said)] {
    [[maybe_unused]] const ssize_t ignored =
        write(STDERR_FILENO, said.data(), said.size());
    devices_.Fault(Error::kAssert);
  });
  const char* const blocking = getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking != nullptr && std::string_view(blocking) == "1")
    return obligations_.Settle({id});
  Merge(&stream->covers, {id});
  return Error::kSuccess;
}

Error ProcessGpu::LaunchGemm(const GemmLaunch& launch) {
  CallScope call(activity_.TapOutsideCalls(), true, kLibraryLaunch);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  if (const Error error = streams_.BeginOn(launch.stream, &stream);
      error != Error::kSuccess)
    return call.Leave(error);
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.capture().CaptureGemm(stream, launch);
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  launches_.EmitGemm(*stream, launch, 0);
  lanes_.After(stream);
  effects_.Apply(launch, kernels_.Find(launch.name)->name.c_str());
  return Error::kSuccess;
}

Error ProcessGpu::LaunchHostFunction(void* handle, void (*function)(void*),
                                     void* argument) {
  if (function == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(handle, &stream));
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.capture().Capture(stream, HostCallParameters{function, argument});
  channel_->Spend(HostCost::kLaunch);
  lanes_.Before(stream);
  launches_.EmitHostFunction(stream, {function, argument}, 0);
  lanes_.After(stream);
  return Error::kSuccess;
}

Error ProcessGpu::Copy(const CopyRequest& asked) {
  const CopyRequest request = CopyEngine::Flattened(asked);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(request.stream, &stream));
  VRANK_RETURN_IF_FAILED(captures_.CheckCopy(stream, request.asynchronous));
  if (stream->capture == nullptr)
    channel_->Spend(request.asynchronous ? HostCost::kCopyAsync
                                         : HostCost::kCopyBlocking);
  if (request.row_bytes == 0 || request.rows == 0 || request.depth == 0)
    return Error::kSuccess;
  if (request.to == nullptr || request.from == nullptr)
    return Error::kInvalidValue;
  CopySides sides{};
  VRANK_RETURN_IF_FAILED(copies_.FindSides(request, &sides));
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.capture().Capture(stream, request);

  lanes_.Before(stream);
  copies_.EmitCopy(*stream, request, sides, 0);
  lanes_.After(stream);

  std::vector<Landing> landings;
  const bool waits = CopyEngine::HostMustWait(request, sides);
  const bool between_hosts = sides.kind == protocol::CopyKind::kHostToHost;
  if (!between_hosts && !copies_.Move(request, sides, &landings))
    return Error::kOutOfMemory;
  if (!waits) {
    for (const Landing& landing : landings)
      Merge(&stream->covers, {obligations_.AddLanding(landing)});
    return Error::kSuccess;
  }
  PendingWait wait = waits_.CoverLane(stream);
  VRANK_RETURN_IF_FAILED(waits_.Perform(&wait, &lock));
  lock.unlock();
  for (const Landing& landing : landings)
    obligations_.Land(landing);
  if (between_hosts)
    copies_.Move(request, sides, &landings);
  return Error::kSuccess;
}

// One after the other on the stream's lane: the order that is allowed and takes
// longest.
Error ProcessGpu::CopyBatch(std::span<CopyRequest> requests, void* stream,
                            size_t* failed) {
  {
    Lock lock(mutex_);
    Stream* on = nullptr;
    VRANK_RETURN_IF_FAILED(streams_.BeginOn(stream, &on));
    for (*failed = 0; *failed < requests.size(); ++*failed) {
      CopyRequest& request = requests[*failed];
      request.stream = stream;
      request.asynchronous = true;
      CopySides sides{};
      if (request.to == nullptr || request.from == nullptr)
        return Error::kInvalidValue;
      VRANK_RETURN_IF_FAILED(copies_.FindSides(request, &sides));
    }
  }
  *failed = SIZE_MAX;
  for (const CopyRequest& request : requests)
    VRANK_RETURN_IF_FAILED(Copy(request));
  return Error::kSuccess;
}

Error ProcessGpu::Fill(const FillRequest& request) {
  CallScope call(activity_.TapOutsideCalls(), true, kLibraryFill);
  Lock lock(mutex_);
  Stream* stream = nullptr;
  if (const Error error = streams_.BeginOn(request.stream, &stream);
      error != Error::kSuccess)
    return call.Leave(error);
  if (const Error error = captures_.CheckCopy(stream, request.asynchronous);
      error != Error::kSuccess)
    return call.Leave(error);
  if (stream->capture == nullptr)
    channel_->Spend(HostCost::kCopyAsync);
  if (request.elements == 0 || request.rows == 0 || request.depth == 0)
    return Error::kSuccess;
  if (const Error error = copies_.CheckFill(request); error != Error::kSuccess)
    return call.Leave(error);
  if (stream->capture != nullptr) [[unlikely]]
    return graphs_.capture().Capture(stream, request);

  lanes_.Before(stream);
  copies_.EmitFill(*stream, request, 0);
  lanes_.After(stream);
  copies_.Fill(request);
  // Blocking memsets wait only where the target is page-locked host memory.
  if (request.asynchronous || contents_.DeviceOf(Address(request.to)) >= 0)
    return Error::kSuccess;
  PendingWait wait = waits_.CoverLane(stream);
  return call.Leave(waits_.Perform(&wait, &lock));
}

// --- Device memory
// -------------------------------------------------------------------

Error ProcessGpu::Allocate(uint64_t bytes, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  channel_->Spend(HostCost::kMalloc);
  const Allocation* const made =
      allocator_.Allocate(device, bytes, protocol::MemoryOwner::kProgram, &lock);
  if (made == nullptr)
    return Error::kOutOfMemory;
  *address = reinterpret_cast<void*>(made->base);
  return Error::kSuccess;
}

Error ProcessGpu::Free(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  if (address == nullptr)
    return Error::kSuccess;
  if (allocator_.FindOwn(Address(address)) == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  device = contents_.DeviceOf(Address(address));
  VRANK_RETURN_IF_FAILED(waits_.WaitForDevice(device, &lock));
  Allocation* const gone =
      allocator_.FindOwn(Address(address));  // again: the lock was given back
  if (gone == nullptr)
    return Error::kInvalidValue;
  if (graphs_.FreeMemory(gone->base))
    return Error::kSuccess;
  allocator_.Free(gone, device, nullptr);
  pools_.TrimAll();
  return Error::kSuccess;
}

Error ProcessGpu::GetDeviceMemoryInfo(DeviceMemoryInfo* info) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  channel_->Spend(HostCost::kAttribute);
  accounting_.ReadOthers(device, 0, &lock);
  const DeviceMemory& memory = contents_.memory(device);
  *info = {memory.left(), memory.capacity(), memory.used()};
  return Error::kSuccess;
}

Error ProcessGpu::GetNodeDeviceHeldBytes(int node_device, uint64_t* bytes) {
  *bytes = 0;
  VRANK_RETURN_IF_FAILED(devices_.Reachable());
  {
    Lock lock(mutex_);
    if (!contexts_.claimed() || node_device < 0 ||
        channel_->settings().local_world_size < 2)
      return Error::kSuccess;
  }
  *bytes = accounting_.AskOthers(node_device, 0, false);
  return Error::kSuccess;
}

Error ProcessGpu::GetPointerInfo(const void* pointer, PointerInfo* info) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
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
    info->device = Devices::Current() < 0 ? 0 : Devices::Current();
    info->base = block->base;
    info->bytes = block->bytes;
    info->buffer_id = block->id;
    info->host_pointer = info->device_pointer = address;
    info->host_flags = block->flags;
    info->registered = block->registered;
  }
  return Error::kSuccess;
}

// --- Stream-ordered memory
// -----------------------------------------------------------

Error ProcessGpu::AllocateAsync(uint64_t bytes, void* handle, void* stream,
                                void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(stream, &on));
  Pool* pool = handle == nullptr ? pools_.Of(on->device).current : pools_.Find(handle);
  if (pool == nullptr)
    return Error::kInvalidValue;
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.capture().CaptureAllocation(on, bytes, address);
  channel_->Spend(HostCost::kPoolMalloc);
  const Allocation* const made = allocator_.AllocateFrom(pool, bytes, on);
  if (made == nullptr)
    return Error::kOutOfMemory;
  *address = reinterpret_cast<void*>(made->base);
  return Error::kSuccess;
}

Error ProcessGpu::FreeAsync(void* address, void* stream) {
  Lock lock(mutex_);
  Stream* on = nullptr;
  VRANK_RETURN_IF_FAILED(streams_.BeginOn(stream, &on));
  if (address == nullptr)
    return Error::kSuccess;
  if (on->capture != nullptr) [[unlikely]]
    return graphs_.capture().CaptureFree(on, address);
  Allocation* const gone = allocator_.FindOwn(Address(address));
  if (gone == nullptr)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kPoolMalloc);
  if (graphs_.FreeMemory(gone->base))
    return Error::kSuccess;
  allocator_.Free(gone, contents_.DeviceOf(Address(address)), on);
  return Error::kSuccess;
}

Error ProcessGpu::CreatePool(int device, uint64_t max_bytes, void** pool) {
  VRANK_RETURN_IF_FAILED(contexts_.Ensure(device));
  Lock lock(mutex_);
  *pool = pools_.Create(device, max_bytes);
  return Error::kSuccess;
}

Error ProcessGpu::DestroyPool(void* pool) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.Destroy(pool);
}

Error ProcessGpu::DefaultPool(int device, void** pool) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  *pool = pools_.Of(device).standard->handle;
  return Error::kSuccess;
}

Error ProcessGpu::CurrentPool(int device, void** pool) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  *pool = pools_.Of(device).current->handle;
  return Error::kSuccess;
}

Error ProcessGpu::SetCurrentPool(int device, void* pool) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  if (!devices_.Has(device))
    return Error::kInvalidDevice;
  Lock lock(mutex_);
  return pools_.SetCurrent(device, pool);
}

Error ProcessGpu::TrimPool(void* pool, uint64_t keep_bytes) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.Trim(pool, keep_bytes);
}

Error ProcessGpu::SetPoolAccess(void* pool, int device, MemoryAccess access) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.SetAccess(pool, device, access);
}

Error ProcessGpu::GetPoolAccess(void* pool, int device, MemoryAccess* access) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.GetAccess(pool, device, access);
}

Error ProcessGpu::GetPoolAttribute(void* pool, PoolAttribute attribute,
                                   uint64_t* value) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.GetAttribute(pool, attribute, value);
}

Error ProcessGpu::SetPoolAttribute(void* pool, PoolAttribute attribute,
                                   uint64_t value) {
  VRANK_RETURN_IF_FAILED(devices_.Ready());
  Lock lock(mutex_);
  return pools_.SetAttribute(pool, attribute, value);
}

// --- Page-locked host memory
// ---------------------------------------------------------

Error ProcessGpu::AllocateHost(uint64_t bytes, unsigned flags, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  *address = nullptr;
  if (bytes == 0)
    return Error::kSuccess;
  channel_->Spend(HostCost::kMalloc);
  const HostBlock* block = host_memory_.Allocate(bytes, flags);
  if (block == nullptr)
    return Error::kOutOfMemory;
  if (notes_.listening()) [[unlikely]]
    notes_.HostMemory(false, block->base, block->bytes);
  *address = reinterpret_cast<void*>(block->base);
  return Error::kSuccess;
}

Error ProcessGpu::FreeHost(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  if (address == nullptr)
    return Error::kSuccess;
  const HostBlock* block = host_memory_.Find(Address(address));
  if (block == nullptr || block->base != Address(address) || block->registered)
    return Error::kInvalidValue;
  const uint64_t bytes = block->bytes;
  channel_->Spend(HostCost::kMalloc);
  VRANK_RETURN_IF_FAILED(waits_.WaitForDevice(device, &lock));
  if (notes_.listening()) [[unlikely]]
    notes_.HostMemory(true, Address(address), bytes);
  return host_memory_.Free(Address(address));
}

Error ProcessGpu::RegisterHost(void* address, uint64_t bytes, unsigned flags) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  if (address == nullptr || bytes == 0 || contents_.DeviceOf(Address(address)) >= 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kMalloc);
  return host_memory_.Register(Address(address), bytes, flags);
}

Error ProcessGpu::UnregisterHost(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(BeginUnsafe(&device));
  channel_->Spend(HostCost::kMalloc);
  VRANK_RETURN_IF_FAILED(waits_.WaitForDevice(device, &lock));
  return host_memory_.Unregister(Address(address));
}

// --- Memory and events of other processes
// --------------------------------------------

Error ProcessGpu::ExportMemory(const void* address, SharedHandle* handle) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  const Allocation* found = contents_.Find(Address(address));
  // As CUDA: what cudaMalloc gave, no pool's, no reservation's, no other process's.
  if (handle == nullptr || found == nullptr || found->pool != nullptr ||
      found->reserved || found->shared)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *handle = shared_handles_.Make(SharedHandle::Kind::kMemory,
                                 contents_.DeviceOf(Address(address)), found->id,
                                 found->bytes);
  return Error::kSuccess;
}

Error ProcessGpu::ImportMemory(const SharedHandle& handle, void** address) {
  if (address == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  VRANK_RETURN_IF_FAILED(shared_handles_.Open(handle, SharedHandle::Kind::kMemory));
  return imported_.Open(handle, device, address);
}

Error ProcessGpu::CloseImported(void* address) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  return imported_.Close(address, device, &lock);
}

Error ProcessGpu::ExportEvent(void* event, SharedHandle* handle) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  const Event* found = events_.Find(event);
  if (found == nullptr)
    return Error::kInvalidHandle;
  if (handle == nullptr || (found->flags & kEventInterprocess) == 0)
    return Error::kInvalidValue;
  channel_->Spend(HostCost::kAttribute);
  *handle =
      shared_handles_.Make(SharedHandle::Kind::kEvent, found->device, found->number, 0);
  return Error::kSuccess;
}

Error ProcessGpu::ImportEvent(const SharedHandle& handle, void** event) {
  if (event == nullptr)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  VRANK_RETURN_IF_FAILED(shared_handles_.Open(handle, SharedHandle::Kind::kEvent));
  channel_->Spend(HostCost::kCreate);
  *event = events_.Add(kEventInterprocess | kEventDisableTiming, device);
  events_.Find(*event)->imported = true;
  return Error::kSuccess;
}

}  // namespace vrank::gpu
