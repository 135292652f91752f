// See traced_events.h.

#include "graph/build/traced_events.h"

namespace vrank::graph {

void TracedEvents::Record(StreamLanes::Stream* stream, const TracedEventRecord& row) {
  lanes_.Before(stream);
  Event& event = events_[{row.context, row.event}];
  if (event.token == 0)
    event.token = lanes_.TakeToken();
  event.sync_id = row.event_sync_id;
  lanes_.Record(stream, event.token);
}

void TracedEvents::RecordAll(uint32_t call) {
  for (const RowsByCall::Row& row : index_.event_records.Of(call)) {
    const TracedEventRecord& record = trace_.event_records[row.row];
    Record(streams_.Find(record.context, record.stream), record);
  }
}

std::optional<uint32_t> TracedEvents::TokenFor(const TracedSync& row) {
  const auto event = events_.find({row.context, row.event});
  if (index_.has_sync_ids()) {
    if (row.event_sync_id == 0)
      return std::nullopt;  // never recorded: nothing to wait for
    if (event == events_.end() || event->second.sync_id != row.event_sync_id) {
      losses_.Count(BuildLoss::kWaitWithoutRecording);
      return std::nullopt;
    }
  }
  return event == events_.end() ? std::nullopt
                                : std::optional<uint32_t>(event->second.token);
}

void TracedEvents::StreamWaits(uint32_t call) {
  for (const RowsByCall::Row& row : index_.syncs.Of(call)) {
    const TracedSync& sync = trace_.syncs[row.row];
    if (sync.kind != SyncKind::kStreamWait)
      continue;
    const std::optional<uint32_t> token = TokenFor(sync);
    if (!token.has_value())
      continue;
    StreamLanes::Stream* stream = streams_.Find(sync.context, sync.stream);
    lanes_.Before(stream);
    lanes_.Wait(stream, *token);
    lanes_.After(stream);
  }
}

void TracedEvents::Release(uint32_t call) {
  for (const RowsByCall::Row& row : index_.event_records.Of(call)) {
    const TracedEventRecord& record = trace_.event_records[row.row];
    ReleaseIfLast({record.context, record.event}, call);
  }
  for (const RowsByCall::Row& row : index_.syncs.Of(call)) {
    const TracedSync& sync = trace_.syncs[row.row];
    if (sync.kind == SyncKind::kEvent || sync.kind == SyncKind::kStreamWait)
      ReleaseIfLast({sync.context, sync.event}, call);
  }
}

void TracedEvents::ReleaseIfLast(const EventKey& key, uint32_t call) {
  if (index_.LastUse(key) != call)
    return;
  const auto event = events_.find(key);
  if (event == events_.end())
    return;
  lanes_.GiveBackToken(event->second.token);
  events_.erase(event);
}

}  // namespace vrank::graph
