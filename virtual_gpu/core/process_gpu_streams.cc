// Streams, and the waits of the host for streams and devices.

#include <algorithm>

#include "virtual_gpu/core/process_gpu.h"
#include "virtual_gpu/core/process_gpu_account.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

Error ProcessGpu::BeginOn(void* handle, Stream** stream) {
  VRANK_RETURN_IF_FAILED(BeginBeside(handle, stream));
  ThisThread().issues = true;
  NoteIssuer(*stream);
  return Error::kSuccess;
}

Error ProcessGpu::BeginBeside(void* handle, Stream** stream) {
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  *stream = lanes_.Find(handle, device);
  if (*stream == nullptr)
    return Error::kInvalidHandle;
  if (graphs_.capturing()) [[unlikely]]
    VRANK_RETURN_IF_FAILED(graphs_.CheckUse(**stream));
  // Default streams come into being with their first use.
  if (activity_.listening() && !(*stream)->noted) [[unlikely]]
    NoteStream(*stream, false);
  return Error::kSuccess;
}

// Threads that use a GPU each wait for their own only.
void ProcessGpu::NoteIssuer(const Stream* stream) {
  Context& mine = context(stream->device);
  const std::thread::id self = std::this_thread::get_id();
  if (mine.issuer == self) [[likely]]
    return;
  mine.issuer = self;
  for (const Context& other : contexts_)
    if (other.issuer != self && other.issuer != std::thread::id())
      channel_->IssueSideBySide();
}

Error ProcessGpu::CreateStream(unsigned flags, int priority, void** stream) {
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0)
    return Error::kInvalidValue;
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  channel_->Spend(HostCost::kCreate);
  // Priorities outside the range are clamped, as documented.
  Stream* const made =
      lanes_.Create(device, flags, std::clamp(priority, kHighestPriority, 0));
  *stream = made->handle;
  if (activity_.listening()) [[unlikely]]
    NoteStream(made, false);
  return Error::kSuccess;
}

Error ProcessGpu::DestroyStream(void* stream) {
  VRANK_RETURN_IF_FAILED(Ready());
  Lock lock(mutex_);
  if (stream == nullptr || stream == kLegacyStream || stream == kPerThreadStream)
    return Error::kInvalidHandle;
  Stream* found = lanes_.Find(stream, 0);
  if (found == nullptr)
    return Error::kInvalidHandle;
  channel_->Spend(HostCost::kCreate);
  if (activity_.listening()) [[unlikely]]
    NoteStream(found, true);
  if (found->capture != nullptr) [[unlikely]]
    graphs_.ForgetStream(found);
  lanes_.Destroy(found);
  return Error::kSuccess;
}

Error ProcessGpu::GetStreamInfo(void* stream, StreamInfo* info) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  const Stream* found = lanes_.Find(stream, device);
  if (found == nullptr)
    return Error::kInvalidHandle;
  channel_->Spend(HostCost::kAttribute);
  *info = {found->device, found->flags, found->priority, found->id};
  return Error::kSuccess;
}

Error ProcessGpu::StreamWaitEvent(void* stream, void* event, bool external) {
  Lock lock(mutex_);
  Stream* waiting = nullptr;
  VRANK_RETURN_IF_FAILED(BeginOn(stream, &waiting));
  const Event* awaited = events_.Find(event);
  if (awaited == nullptr)
    return Error::kInvalidHandle;
  if (waiting->capture != nullptr || awaited->capture != 0) [[unlikely]]
    return graphs_.CaptureWait(waiting, *awaited, event, external);
  channel_->Spend(HostCost::kStreamWait);
  if (activity_.listening()) [[unlikely]] {
    NoteSync({.kind = ActivitySyncKind::kStreamWait,
              .context = ContextOf(waiting->device),
              .stream = NumberOf(*waiting),
              .event = awaited->number,
              .event_sync_id = awaited->recording});
  }
  NoteWaitFor(*awaited);
  if (!awaited->recorded)
    return Error::kSuccess;  // never recorded: nothing to wait for
  lanes_.Before(waiting);
  lanes_.Wait(waiting, awaited->token);
  lanes_.After(waiting);
  Merge(&waiting->covers, awaited->covers);
  return Error::kSuccess;
}

void ProcessGpu::AddToWait(Stream* stream, PendingWait* wait) {
  if (obligations_.empty())
    stream->covers.clear();
  if (stream->issued == stream->waited && stream->covers.empty())
    return;
  wait->lanes.push_back({stream->lane, stream->id, stream->issued});
  Merge(&wait->covers, stream->covers);
}

ProcessGpu::PendingWait ProcessGpu::WaitForStream(Stream* stream) {
  PendingWait wait;
  for (Stream* covered : lanes_.CoveredBy(stream))
    AddToWait(covered, &wait);
  return wait;
}

void ProcessGpu::NoteEnded(const PendingWait::Lane& lane) {
  Stream* stream = lanes_.FindLane(lane.lane);
  if (stream != nullptr && stream->id == lane.stream_id)
    stream->waited = std::max(stream->waited, lane.issued);
}

ProcessGpu::PendingWait ProcessGpu::WaitForDevice(int device) {
  PendingWait wait;
  for (Stream* stream : lanes_.OfDevice(device))
    if (!stream->internal)
      AddToWait(stream, &wait);
  Lanes::Left left = lanes_.TakeLeft(device);
  wait.tokens = std::move(left.tokens);
  Merge(&wait.covers, left.covers);
  return wait;
}

// One question for any number of lanes: the records before it make the engine wait, the
// last one brings the clock back.
Error ProcessGpu::Perform(PendingWait* wait, Lock* lock) {
  lock->unlock();
  Error result = Error::kSuccess;
  size_t left = wait->tokens.size() + wait->lanes.size();
  auto wait_for = [&](protocol::RecordKind kind, uint32_t target) {
    protocol::HostWait record{};
    record.record.kind = kind;
    record.target = target;
    record.slot = protocol::kNoSlot;
    if (--left == 0) {
      result = ResultOf(channel_->Ask(record));
    } else {
      record.record.flags = protocol::kMoreWaits;
      channel_->Emit(record);
    }
    if (activity_.listening()) [[unlikely]] {
      wait->last_record = activity_.LastRecord();
      if (wait->first_record == 0)
        wait->first_record = wait->last_record;
    }
  };
  for (const Token& token : wait->tokens)
    wait_for(protocol::RecordKind::kHostWaitToken, token.id);
  for (const PendingWait::Lane& lane : wait->lanes)
    wait_for(protocol::RecordKind::kHostWaitLane, lane.lane);
  if (result == Error::kSuccess)
    obligations_.Settle(wait->covers);
  lock->lock();
  for (const Token& token : wait->tokens)
    lanes_.GiveBackToken(token);
  if (result != Error::kSuccess)
    return result;
  for (const PendingWait::Lane& lane : wait->lanes)
    NoteEnded(lane);
  TrimPools();
  return Error::kSuccess;
}

Error ProcessGpu::PerformForDevice(PendingWait* wait, Lock* lock, int device) {
  const Error result = Perform(wait, lock);
  if (activity_.listening()) [[unlikely]]
    NoteSync({.kind = ActivitySyncKind::kContext, .context = ContextOf(device)}, wait);
  return result;
}

void ProcessGpu::Shrink(Pool* pool, uint64_t keep) {
  Account(pool->device, protocol::MemoryOwner::kProgram, [&] { pool->Trim(keep); });
  if (activity_.listening()) [[unlikely]]
    NoteChange(pool->device, protocol::MemoryOwner::kProgram);
}

void ProcessGpu::TrimPools() {
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

Error ProcessGpu::SynchronizeStream(void* stream) {
  Lock lock(mutex_);
  Stream* found = nullptr;
  VRANK_RETURN_IF_FAILED(BeginOn(stream, &found));
  VRANK_RETURN_IF_FAILED(graphs_.CheckWait(found));
  channel_->Spend(HostCost::kSynchronize);
  PendingWait wait = WaitForStream(found);
  const ActivitySync sync{.kind = ActivitySyncKind::kStream,
                          .context = ContextOf(found->device),
                          .stream = NumberOf(*found)};
  const Error result = Perform(&wait, &lock);
  if (activity_.listening()) [[unlikely]]
    NoteSync(sync, &wait);
  return result;
}

Error ProcessGpu::SynchronizeDevice() {
  // cuBLAS synchronizes on its own behalf, too.
  CallScope call(activity_.TapOutsideCalls(), true, "cuCtxSynchronize");
  Lock lock(mutex_);
  int device = 0;
  if (const Error error = Begin(&device); error != Error::kSuccess)
    return call.Leave(error);
  if (const Error error = graphs_.CheckDeviceWait(device); error != Error::kSuccess)
    return call.Leave(error);
  channel_->Spend(HostCost::kSynchronize);
  PendingWait wait = WaitForDevice(device);
  return PerformForDevice(&wait, &lock, device);
}

Error ProcessGpu::QueryStream(void* stream) {
  Lock lock(mutex_);
  int device = 0;
  VRANK_RETURN_IF_FAILED(Begin(&device));
  Stream* found = lanes_.Find(stream, device);
  if (found == nullptr)
    return Error::kInvalidHandle;
  VRANK_RETURN_IF_FAILED(graphs_.CheckWait(found));
  channel_->Spend(HostCost::kQuery);
  const PendingWait covered = WaitForStream(found);
  const ActivitySync sync{.kind = ActivitySyncKind::kStream,
                          .context = ContextOf(found->device),
                          .stream = NumberOf(*found)};
  if (covered.lanes.empty()) {
    if (activity_.listening()) [[unlikely]]
      NoteSync(sync);
    return Error::kSuccess;  // a wait has covered all of it
  }
  bool complete = true;
  for (const PendingWait::Lane& lane : covered.lanes) {
    lock.unlock();
    complete = AskOnce({protocol::QueryTarget::kLane, lane.lane, 0, {}}).complete;
    lock.lock();
    if (!complete)
      break;
    NoteEnded(lane);
  }
  lock.unlock();
  if (activity_.listening()) [[unlikely]]
    NoteQuestion(sync);
  if (!complete)
    return Error::kNotReady;
  obligations_.Settle(covered.covers);
  return Error::kSuccess;
}

}  // namespace vrank::gpu
