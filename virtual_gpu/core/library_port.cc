#include "virtual_gpu/core/library_port.h"

#include <utility>

#include "virtual_gpu/core/api_lock.h"
#include "virtual_gpu/core/library_calls.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {
namespace {

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace

bool LibraryPort::FindStream(void* handle, int device, VirtualGpu::Stream* stream,
                             int* error_out) {
  int ignored = 0;
  int& reason = error_out != nullptr ? *error_out : ignored;
  reason = static_cast<int>(Error::kInvalidDevice);
  if (device >= devices_.Count())
    return false;
  ApiLock lock(mutex_);
  int& current = ThisThread().device;
  const int before = current;
  if (device >= 0)
    current = device;
  Stream* found = nullptr;
  const Error error = streams_.BeginOn(handle, &found);
  if (device >= 0)
    current = before;
  reason = static_cast<int>(error);
  if (error != Error::kSuccess)
    return false;
  *stream = {found->device, found->lane};
  return true;
}

int LibraryPort::MemoryDevice(const void* address) {
  ApiLock lock(mutex_);
  if (contents_.Find(Address(address)) != nullptr)
    return contents_.DeviceOf(Address(address));
  return host_memory_.Find(Address(address)) != nullptr ? kHostMemory : kNoMemory;
}

VirtualGpu::OwnToken LibraryPort::TakeToken() {
  ApiLock lock(mutex_);
  const gpu::Token token = lanes_.TakeToken();
  return {token.id, token.generation};
}

void LibraryPort::GiveBackToken(VirtualGpu::OwnToken token) {
  ApiLock lock(mutex_);
  lanes_.GiveBackToken(gpu::Token{token.id, token.generation});
}

void LibraryPort::SetBlock(const void* address, int64_t bytes) {
  ApiLock lock(mutex_);
  contents_.SetBlock(reinterpret_cast<uint64_t>(address), bytes);
}

void LibraryPort::BeginWork(VirtualGpu::Stream stream) {
  if (ActivityTap* const tap = recorder_.TapOutsideCalls()) [[unlikely]] {
    tap->Enter(true, kLibraryLaunch, nullptr);
    ThisThread().launches_alone = true;
  }
  mutex_.lock();
  ++ThisThread().calls;
  Stream* const on = lanes_.FindLane(stream.lane);
  memory_.SetStream(on);
  if (on != nullptr) {
    contexts_.NoteIssuer(on->device);
    lanes_.Before(on);
  }
}

void LibraryPort::EndWork(VirtualGpu::Stream stream) {
  if (Stream* on = lanes_.FindLane(stream.lane))
    lanes_.After(on);
  memory_.SetStream(nullptr);
  --ThisThread().calls;
  mutex_.unlock();
  if (std::exchange(ThisThread().launches_alone, false)) [[unlikely]]
    recorder_.Exit(0);
}

void LibraryPort::DescribeWork(const protocol::Record& record) {
  if (notes_.listening() && memory_.stream() != nullptr) [[unlikely]]
    notes_.LibraryWork(*memory_.stream(), record);
}

void LibraryPort::Join(VirtualGpu::Stream waiting, VirtualGpu::Stream before) {
  ApiLock lock(mutex_);
  Stream* to = lanes_.FindLane(waiting.lane);
  Stream* from = lanes_.FindLane(before.lane);
  if (to == nullptr || from == nullptr || to == from)
    return;
  if (to->capture != nullptr || from->capture != nullptr) [[unlikely]] {
    captures_.CaptureJoin(to, from);
    return;
  }
  if (notes_.listening()) [[unlikely]] {
    JoinAsCalls(to, from);
    return;
  }
  lanes_.Before(to);
  lanes_.Join(to, from);
  lanes_.After(to);
}

void LibraryPort::JoinAsCalls(Stream* waiting, Stream* before) {
  const uint32_t event = notes_.NextEvent();
  const uint64_t recording = notes_.NextRecording();
  lanes_.Before(waiting);
  {
    const CallScope call(recorder_.TapOutsideCalls(), true, "cuEventRecord");
    lanes_.RecordHidden(before, protocol::kTimed);
    notes_.EventRecord(*before, event, recording);
  }
  const CallScope call(recorder_.TapOutsideCalls(), true, "cuStreamWaitEvent");
  notes_.Sync({.kind = ActivitySyncKind::kStreamWait,
               .context = ActivityNotes::ContextOf(waiting->device),
               .stream = ActivityNotes::NumberOf(*waiting),
               .event = event,
               .event_sync_id = recording});
  lanes_.WaitForHidden(waiting, before);
  lanes_.After(waiting);
}

void LibraryPort::Hold() {
  mutex_.lock();
  ++ThisThread().calls;
}

void LibraryPort::LetGo() {
  --ThisThread().calls;
  mutex_.unlock();
}

uint64_t LibraryPort::CaptureOf(VirtualGpu::Stream stream) {
  ApiLock lock(mutex_);
  const Stream* const found = lanes_.FindLane(stream.lane);
  return found == nullptr || found->capture == nullptr ? 0 : found->capture->id;
}

bool LibraryPort::Capture(VirtualGpu::Stream stream,
                          std::shared_ptr<CapturedWork> work) {
  ApiLock lock(mutex_);
  Stream* const found = lanes_.FindLane(stream.lane);
  return found != nullptr && found->capture != nullptr &&
         captures_.CaptureLibraryWork(found, std::move(work)) == Error::kSuccess;
}

uint64_t LibraryPort::Reserve(int device, uint64_t bytes, protocol::MemoryOwner owner) {
  if (bytes == 0 || contexts_.Ensure(device) != Error::kSuccess)
    return 0;
  // A library's allocation is a driver call, as on a real GPU. What NCCL takes is told
  // by libnccl itself.
  CallScope call(owner == protocol::MemoryOwner::kCommunicator
                     ? nullptr
                     : recorder_.TapOutsideCalls(),
                 true, "cuMemAlloc_v2");
  ApiLock lock(mutex_);
  const Allocation* const made = allocator_.Allocate(device, bytes, owner, &lock);
  if (made == nullptr) {
    static_cast<void>(call.Leave(Error::kOutOfMemory));
    return 0;
  }
  return made->base;
}

bool LibraryPort::IsOfNccl(uint64_t address) {
  ApiLock lock(mutex_);
  const Allocation* allocation = contents_.Find(address);
  return allocation != nullptr &&
         allocation->owner == protocol::MemoryOwner::kCommunicator;
}

void LibraryPort::GiveBack(int device, uint64_t address) {
  CallScope call(IsOfNccl(address) ? nullptr : recorder_.TapOutsideCalls(), true,
                 "cuMemFree_v2");
  ApiLock lock(mutex_);
  Allocation* gone = contents_.Find(address);
  if (gone != nullptr && contents_.DeviceOf(address) == device)
    allocator_.Free(gone, device, nullptr);
  else
    static_cast<void>(call.Leave(Error::kInvalidValue));
}

std::vector<ContentPiece> LibraryPort::Inspect(const void* address, uint64_t bytes) {
  ApiLock lock(mutex_);
  return memory_.Inspect(address, bytes);
}

void LibraryPort::Read(const void* address, uint64_t bytes, void* out) {
  ApiLock lock(mutex_);
  memory_.Read(address, bytes, out);
}

void LibraryPort::SetResult(void* address, uint64_t bytes, protocol::PayloadKey key,
                            uint64_t offset) {
  ApiLock lock(mutex_);
  memory_.SetResult(address, bytes, key, offset);
}

void LibraryPort::BeforeNextFetch(std::function<void()> call) {
  memory_.BeforeNextFetch(std::move(call));
}

void LibraryPort::CopyContent(void* to, const void* from, uint64_t bytes) {
  ApiLock lock(mutex_);
  memory_.Copy(to, from, bytes);
}

}  // namespace vrank::gpu
