#include "virtual_gpu/core/events.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "virtual_gpu/core/gpu_types.h"
#include "virtual_gpu/core/query.h"

namespace vrank::gpu {

void* Events::Add(unsigned flags, int device) {
  auto made = std::make_unique<Event>();
  made->number = notes_.NextEvent();
  made->flags = flags;
  made->device = device;
  return events_.Add(std::move(made));
}

Error Events::Destroy(void* handle) {
  std::unique_ptr<Event> gone = events_.Remove(handle);
  if (gone == nullptr)
    return Error::kInvalidHandle;
  channel_->Spend(HostCost::kCreate);
  if (gone->token.id != 0)
    lanes_.GiveBackToken(gone->token);
  return Error::kSuccess;
}

void Events::Record(Stream* on, Event* recorded, uint16_t flags) {
  if (recorded->token.id == 0) {
    // A token that was used before goes on counting its generations.
    recorded->token = lanes_.TakeToken();
  }
  recorded->recording = notes_.NextRecording();
  if (notes_.listening()) [[unlikely]] {
    lanes_.Record(on, &recorded->token, flags | protocol::kTimed);
    notes_.EventRecord(*on, recorded->number, recorded->recording);
  } else {
    lanes_.Record(on, &recorded->token, flags);
  }
  recorded->capture = 0;
  recorded->recorded = true;
  recorded->end_ns.reset();
  obligations_.Prune(&on->covers);
  recorded->covers = on->covers;
}

void Events::CountWait(const Event& event) {
  if (event.imported && !event.recorded) [[unlikely]]
    channel_->Count(LossId::kForeignEvents, 1);
}

void Events::OrderBehind(Stream* waiting, const Event& awaited) {
  if (notes_.listening()) [[unlikely]] {
    notes_.Sync({.kind = ActivitySyncKind::kStreamWait,
                 .context = ActivityNotes::ContextOf(waiting->device),
                 .stream = ActivityNotes::NumberOf(*waiting),
                 .event = awaited.number,
                 .event_sync_id = awaited.recording});
  }
  CountWait(awaited);
  if (!awaited.recorded)
    return;  // never recorded: nothing to wait for
  lanes_.Before(waiting);
  lanes_.Wait(waiting, awaited.token);
  lanes_.After(waiting);
  Merge(&waiting->covers, awaited.covers);
}

void Events::KeepEnd(void* handle, uint32_t generation, const Answer& answer) {
  Event* const event = Find(handle);
  if (event != nullptr && event->token.generation == generation)
    event->end_ns = answer.end.nanoseconds();
}

Error Events::Synchronize(void* handle, ApiLock* lock) {
  const Event* found = Find(handle);
  if (found == nullptr)
    return Error::kInvalidHandle;
  VRANK_RETURN_IF_FAILED(captures_.CheckEventWait(*found));
  channel_->Spend(HostCost::kSynchronize);
  CountWait(*found);
  const ActivitySync sync = ActivityNotes::SyncOn(*found);
  if (!found->recorded) {
    if (notes_.listening()) [[unlikely]]
      notes_.Sync(sync);
    return Error::kSuccess;
  }
  const Token token = found->token;
  const ObligationSet covers = found->covers;
  lock->unlock();
  protocol::HostWait record{};
  record.record.kind = protocol::RecordKind::kHostWaitToken;
  record.target = token.id;
  record.slot = protocol::kNoSlot;
  const auto end = channel_->PublishedEnd(token.id, token.generation);
  if (end && *end <= channel_->Now()) {
    channel_->Emit(record);
  } else {
    const Answer answer = channel_->Ask(record);
    VRANK_RETURN_IF_FAILED(ResultOf(*channel_, answer));
    lock->lock();
    KeepEnd(handle, token.generation, answer);
    lock->unlock();
  }
  if (notes_.listening()) [[unlikely]]
    notes_.Question(sync);
  const Error result = obligations_.Settle(covers);
  lock->lock();
  pools_.TrimAll();
  return result;
}

Error Events::Query(void* handle, ApiLock* lock) {
  const Event* found = Find(handle);
  if (found == nullptr)
    return Error::kInvalidHandle;
  VRANK_RETURN_IF_FAILED(captures_.CheckEventWait(*found));
  channel_->Spend(HostCost::kQuery);
  CountWait(*found);
  const ActivitySync sync = ActivityNotes::SyncOn(*found);
  if (!found->recorded) {
    if (notes_.listening()) [[unlikely]]
      notes_.Sync(sync);
    return Error::kSuccess;
  }
  const EndQuery query{protocol::QueryTarget::kToken, found->token.id,
                       found->token.generation, found->end_ns};
  const ObligationSet covers = found->covers;
  lock->unlock();
  const Answer answer = Poll(*channel_, query);
  if (notes_.listening()) [[unlikely]]
    notes_.Question(sync);
  if (!answer.complete)
    return Error::kNotReady;
  lock->lock();
  KeepEnd(handle, query.generation, answer);
  lock->unlock();
  return obligations_.Settle(covers);
}

Error Events::FindEnd(void* handle, ApiLock* lock, int64_t* end_ns) {
  const Event* const event = Find(handle);
  if (event != nullptr && event->capture != 0)
    return Error::kCapturedEvent;
  if (event == nullptr || !event->recorded || (event->flags & kEventDisableTiming) != 0)
    return Error::kInvalidHandle;
  const EndQuery query{protocol::QueryTarget::kToken, event->token.id,
                       event->token.generation, event->end_ns};
  lock->unlock();
  const Answer answer = Ask(*channel_, query);
  lock->lock();
  if (!answer.complete)
    return Error::kNotReady;
  KeepEnd(handle, query.generation, answer);
  *end_ns = answer.end.nanoseconds();
  return Error::kSuccess;
}

Error Events::Elapsed(void* start, void* end, int64_t* elapsed_ns, ApiLock* lock) {
  channel_->Spend(HostCost::kAttribute);
  // CUDA C++ Programming Guide, "Stream and Event Behavior": "cudaEventElapsedTime()
  // will fail if the two input events are associated to different devices."
  const Event* const first = Find(start);
  const Event* const last = Find(end);
  if (first != nullptr && last != nullptr && first->device != last->device)
    return Error::kInvalidHandle;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  VRANK_RETURN_IF_FAILED(FindEnd(start, lock, &start_ns));
  VRANK_RETURN_IF_FAILED(FindEnd(end, lock, &end_ns));
  *elapsed_ns = end_ns - start_ns;
  return Error::kSuccess;
}

void Events::Drop(int device) {
  std::vector<void*> gone;
  events_.ForEach([&](void* handle, Event& event) {
    if (event.device != device)
      return;
    if (event.token.id != 0)
      lanes_.GiveBackToken(event.token);
    gone.push_back(handle);
  });
  for (void* handle : gone)
    events_.Remove(handle);
}

void Events::Forget(const GraphNode* node) {
  events_.ForEach([&](void*, Event& event) { std::erase(event.captured_after, node); });
}

}  // namespace vrank::gpu
