#include "virtual_gpu/core/streams.h"

#include <algorithm>

#include "virtual_gpu/core/query.h"
#include "virtual_gpu/core/thread_state.h"

namespace vrank::gpu {

Error Streams::BeginOn(void* handle, Stream** stream) {
  VRANK_RETURN_IF_FAILED(BeginBeside(handle, stream));
  ThisThread().issues = true;
  contexts_.NoteIssuer((*stream)->device);
  return Error::kSuccess;
}

Error Streams::BeginBeside(void* handle, Stream** stream) {
  VRANK_RETURN_IF_FAILED(Find(handle, stream));
  if (!captures_.empty()) [[unlikely]]
    VRANK_RETURN_IF_FAILED(captures_.CheckUse(**stream));
  // Default streams come into being with their first use.
  if (notes_.listening() && !(*stream)->noted) [[unlikely]]
    notes_.StreamChange(*stream, false);
  return Error::kSuccess;
}

Error Streams::Find(void* handle, Stream** stream) {
  int device = 0;
  VRANK_RETURN_IF_FAILED(contexts_.Begin(&device));
  *stream = lanes_.Find(handle, device);
  return *stream == nullptr ? Error::kInvalidHandle : Error::kSuccess;
}

void* Streams::Create(int device, unsigned flags, int priority) {
  channel_->Spend(HostCost::kCreate);
  if (!contexts_.TakeStream(device))
    return nullptr;
  // Priorities outside the range are clamped, as documented.
  Stream* const made =
      lanes_.Create(device, flags, std::clamp(priority, kHighestPriority, 0));
  if (notes_.listening()) [[unlikely]]
    notes_.StreamChange(made, false);
  return made->handle;
}

Error Streams::Synchronize(Stream* stream, ApiLock* lock) {
  VRANK_RETURN_IF_FAILED(captures_.CheckWait(stream));
  channel_->Spend(HostCost::kSynchronize);
  PendingWait wait = waits_.CoverStream(stream);
  const ActivitySync sync = ActivityNotes::SyncOn(*stream);
  const Error result = waits_.Perform(&wait, lock);
  if (notes_.listening()) [[unlikely]]
    notes_.Sync(sync, wait.records);
  return result;
}

Error Streams::Query(Stream* stream, ApiLock* lock) {
  VRANK_RETURN_IF_FAILED(captures_.CheckWait(stream));
  channel_->Spend(HostCost::kQuery);
  const PendingWait covered = waits_.CoverStream(stream);
  const ActivitySync sync = ActivityNotes::SyncOn(*stream);
  if (covered.lanes.empty()) {
    if (notes_.listening()) [[unlikely]]
      notes_.Sync(sync);
    return Error::kSuccess;  // a wait has covered all of it
  }
  bool complete = true;
  for (const PendingWait::Lane& lane : covered.lanes) {
    lock->unlock();
    complete =
        Poll(*channel_, {protocol::QueryTarget::kLane, lane.lane, 0, {}}).complete;
    lock->lock();
    if (!complete)
      break;
    waits_.MarkEnded(lane);
  }
  lock->unlock();
  if (notes_.listening()) [[unlikely]]
    notes_.Question(sync);
  if (!complete)
    return Error::kNotReady;
  return obligations_.Settle(covered.covers);
}

}  // namespace vrank::gpu
