#include "virtual_gpu/core/host_waits.h"

#include <algorithm>
#include <utility>

#include "virtual_gpu/core/query.h"

namespace vrank::gpu {

void HostWaits::Add(Stream* stream, PendingWait* wait) {
  obligations_.Prune(&stream->covers);
  if (stream->issued == stream->waited && stream->covers.empty())
    return;
  wait->lanes.push_back({stream->lane, stream->id, stream->issued});
  Merge(&wait->covers, stream->covers);
}

PendingWait HostWaits::CoverStream(Stream* stream) {
  PendingWait wait;
  for (Stream* covered : lanes_.CoveredBy(stream))
    Add(covered, &wait);
  return wait;
}

PendingWait HostWaits::CoverLane(Stream* stream) {
  PendingWait wait;
  Add(stream, &wait);
  return wait;
}

void HostWaits::MarkEnded(const PendingWait::Lane& lane) {
  Stream* stream = lanes_.FindLane(lane.lane);
  if (stream != nullptr && stream->id == lane.stream_id)
    stream->waited = std::max(stream->waited, lane.issued);
}

// One question for any number of lanes: the records before it make the engine wait, the
// last one brings the clock back.
Error HostWaits::Perform(PendingWait* wait, ApiLock* lock) {
  lock->unlock();
  Error result = Error::kSuccess;
  size_t left = wait->tokens.size() + wait->lanes.size();
  auto wait_for = [&](protocol::RecordKind kind, uint32_t target) {
    protocol::HostWait record{};
    record.record.kind = kind;
    record.target = target;
    record.slot = protocol::kNoSlot;
    if (--left == 0) {
      result = ResultOf(*channel_, channel_->Ask(record));
    } else {
      record.record.flags = protocol::kMoreWaits;
      channel_->Emit(record);
    }
    if (notes_.listening()) [[unlikely]] {
      wait->records.last = notes_.LastRecord();
      if (wait->records.first == 0)
        wait->records.first = wait->records.last;
    }
  };
  for (const Token& token : wait->tokens)
    wait_for(protocol::RecordKind::kHostWaitToken, token.id);
  for (const PendingWait::Lane& lane : wait->lanes)
    wait_for(protocol::RecordKind::kHostWaitLane, lane.lane);
  if (result == Error::kSuccess)
    result = obligations_.Settle(wait->covers);
  lock->lock();
  for (const Token& token : wait->tokens)
    lanes_.GiveBackToken(token);
  if (result != Error::kSuccess)
    return result;
  for (const PendingWait::Lane& lane : wait->lanes)
    MarkEnded(lane);
  pools_.TrimAll();
  return Error::kSuccess;
}

Error HostWaits::WaitForDevice(int device, ApiLock* lock) {
  PendingWait wait;
  for (Stream* stream : lanes_.OfDevice(device))
    if (!stream->internal)
      Add(stream, &wait);
  StreamLanes::Left left = lanes_.TakeLeft(device);
  wait.tokens = std::move(left.tokens);
  Merge(&wait.covers, left.covers);
  const Error result = Perform(&wait, lock);
  if (notes_.listening()) [[unlikely]]
    notes_.Sync({.kind = ActivitySyncKind::kContext,
                 .context = ActivityNotes::ContextOf(device)},
                wait.records);
  return result;
}

}  // namespace vrank::gpu
