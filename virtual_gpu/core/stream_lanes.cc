// Lane numbers, hidden tokens, and the legacy default stream's rules.

#include "virtual_gpu/core/stream_lanes.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "virtual_gpu/core/gpu_types.h"

namespace vrank::gpu {
namespace {

// Numbers threads in the order in which they first use their default stream.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

void Merge(ObligationSet* set, const ObligationSet& more) {
  if (more.empty())
    return;
  ObligationSet merged;
  merged.reserve(set->size() + more.size());
  std::set_union(set->begin(), set->end(), more.begin(), more.end(),
                 std::back_inserter(merged));
  *set = std::move(merged);
}

std::unique_ptr<Stream> StreamLanes::Make(int device, unsigned flags, int priority) {
  auto stream = std::make_unique<Stream>();
  if (free_lanes_.empty()) {
    if (by_lane_.empty())
      by_lane_.push_back(nullptr);  // lane 0 is the host
    stream->lane = static_cast<uint32_t>(by_lane_.size());
    by_lane_.push_back(stream.get());
  } else {
    stream->lane = free_lanes_.top();
    free_lanes_.pop();
    by_lane_[stream->lane] = stream.get();
  }
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = next_stream_id_++;
  stream->blocking = (flags & kStreamNonBlocking) == 0;
  // A new stream's work follows what the legacy stream holds already: it has seen none.
  return stream;
}

Stream* StreamLanes::Create(int device, unsigned flags, int priority) {
  std::unique_ptr<Stream> stream = Make(device, flags, priority);
  Stream* raw = stream.get();
  raw->handle = streams_.Add(std::move(stream));
  return raw;
}

Stream* StreamLanes::CreateInternal(int device) {
  std::unique_ptr<Stream> stream = Make(device, kStreamNonBlocking, 0);
  stream->internal = true;
  Stream* const raw = stream.get();
  internal_[raw->lane] = std::move(stream);
  return raw;
}

void StreamLanes::DestroyInternal(Stream* stream) {
  Release(stream);
  internal_.erase(stream->lane);
}

void StreamLanes::Release(Stream* stream) {
  std::erase(devices_[stream->device].dirty, stream);
  if (stream->hidden.id != 0)
    GiveBackToken(stream->hidden);
  protocol::Lane record{};
  record.record.kind = protocol::RecordKind::kReleaseLane;
  record.lane = stream->lane;
  channel_->Emit(record);
  by_lane_[stream->lane] = nullptr;
  free_lanes_.push(stream->lane);
}

void StreamLanes::Destroy(Stream* stream) {
  Device& device = devices_[stream->device];
  if (stream->issued > stream->waited) {
    Token token = TakeToken();
    Record(stream, &token);
    if (stream->dirty)
      Wait(Legacy(stream->device), token);
    device.left.tokens.push_back(token);
    Merge(&device.left.covers, stream->covers);
  }
  Release(stream);
  streams_.Remove(stream->handle);
}

void StreamLanes::DestroyAll(int device) {
  for (Stream* stream : OfDevice(device)) {
    Release(stream);
    if (stream->internal)
      internal_.erase(stream->lane);
    else if (stream->handle != nullptr)
      streams_.Remove(stream->handle);
  }
  auto found = devices_.find(device);
  if (found == devices_.end())
    return;
  for (const Token& token : found->second.left.tokens)
    GiveBackToken(token);
  devices_.erase(found);
}

Stream* StreamLanes::Legacy(int device) {
  std::unique_ptr<Stream>& legacy = devices_[device].legacy;
  if (legacy == nullptr) {
    legacy = Make(device, 0, 0);
    legacy->legacy = true;
    legacy->blocking = false;
  }
  return legacy.get();
}

Stream* StreamLanes::PerThread(int device) {
  std::unique_ptr<Stream>& stream = devices_[device].per_thread[ThreadNumber()];
  if (stream == nullptr)
    stream = Make(device, 0, 0);
  return stream.get();
}

Stream* StreamLanes::Find(void* handle, int device) {
  if (handle == nullptr || handle == kLegacyStream)
    return Legacy(device);
  if (handle == kPerThreadStream)
    return PerThread(device);
  return streams_.Find(handle);
}

Stream* StreamLanes::FindLane(uint32_t lane) {
  return lane < by_lane_.size() ? by_lane_[lane] : nullptr;
}

std::vector<Stream*> StreamLanes::OfDevice(int device) {
  std::vector<Stream*> found;
  for (Stream* stream : by_lane_)
    if (stream != nullptr && stream->device == device)
      found.push_back(stream);
  return found;
}

Token StreamLanes::TakeToken() {
  if (free_tokens_.empty())
    return {next_token_++, 0};
  Token token = free_tokens_.back();
  free_tokens_.pop_back();
  return token;
}

Token StreamLanes::TakeInternalToken() {
  if (free_internal_tokens_.empty())
    return {next_token_++, 0};
  const Token token = free_internal_tokens_.back();
  free_internal_tokens_.pop_back();
  return token;
}

void StreamLanes::GiveBackToken(const Token& token) {
  free_tokens_.push_back(token);
}

void StreamLanes::NeedHidden(Stream* stream) {
  if (stream->hidden.id == 0)
    stream->hidden = TakeToken();
}

void StreamLanes::Record(Stream* stream, Token* token, uint16_t flags) {
  protocol::TokenOnLane record{};
  record.record.kind = protocol::RecordKind::kRecordToken;
  record.record.flags = flags;
  record.lane = stream->lane;
  record.token = token->id;
  ++token->generation;
  channel_->Emit(record);
}

void StreamLanes::Wait(Stream* waiting, const Token& token, uint16_t flags) {
  protocol::TokenOnLane record{};
  record.record.kind = protocol::RecordKind::kWaitToken;
  record.record.flags = flags;
  record.lane = waiting->lane;
  record.token = token.id;
  channel_->Emit(record);
  ++waiting->issued;  // its end may have moved: host waits count it
}

void StreamLanes::Join(Stream* waiting, Stream* before) {
  if (waiting == before)
    return;
  RecordHidden(before);
  WaitForHidden(waiting, before);
}

void StreamLanes::RecordHidden(Stream* stream, uint16_t flags) {
  NeedHidden(stream);
  Record(stream, &stream->hidden, flags);
  // The legacy stream's token now covers all of it, which spares the next edge.
  if (stream->legacy)
    devices_[stream->device].legacy_recorded = devices_[stream->device].legacy_issued;
}

void StreamLanes::WaitForHidden(Stream* waiting, Stream* before) {
  Wait(waiting, before->hidden);
  Merge(&waiting->covers, before->covers);
}

void StreamLanes::Before(Stream* stream) {
  if (!stream->legacy && !stream->blocking)
    return;
  Device& device = devices_[stream->device];
  if (stream->legacy) {
    for (Stream* other : device.dirty) {
      Join(stream, other);
      other->dirty = false;
    }
    device.dirty.clear();
    return;
  }
  if (device.legacy_issued == stream->legacy_seen)
    return;
  stream->legacy_seen = device.legacy_issued;
  Stream* legacy = device.legacy.get();
  if (device.legacy_recorded != device.legacy_issued) {
    Join(stream, legacy);
    return;
  }
  Wait(stream, legacy->hidden);
  Merge(&stream->covers, legacy->covers);
}

void StreamLanes::After(Stream* stream) {
  ++stream->issued;
  if (stream->legacy) {
    ++devices_[stream->device].legacy_issued;
  } else if (stream->blocking && !stream->dirty) {
    stream->dirty = true;
    devices_[stream->device].dirty.push_back(stream);
  }
}

std::vector<Stream*> StreamLanes::CoveredBy(Stream* stream) const {
  std::vector<Stream*> covered;
  if (stream->legacy)
    covered = devices_.at(stream->device).dirty;
  covered.push_back(stream);
  return covered;
}

StreamLanes::Left StreamLanes::TakeLeft(int device) {
  return std::exchange(devices_[device].left, {});
}

}  // namespace vrank::gpu
