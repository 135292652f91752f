// Lane numbers, hidden tokens, and the legacy default stream's rules.

#include "graph/build/stream_lanes.h"

#include <algorithm>

namespace vrank::graph {
namespace {

// CUPTI numbers the legacy default stream of every context so.
constexpr uint32_t kLegacyNumber = 7;

}  // namespace

std::unique_ptr<StreamLanes::Stream> StreamLanes::Make(uint32_t context) {
  auto stream = std::make_unique<Stream>();
  stream->context = context;
  if (free_lanes_.empty()) {
    stream->lane = static_cast<uint32_t>(by_lane_.size());
    by_lane_.push_back(nullptr);
  } else {
    stream->lane = free_lanes_.top();
    free_lanes_.pop();
  }
  by_lane_[stream->lane] = stream.get();
  stream->id = next_id_++;
  return stream;
}

void StreamLanes::Release(Stream* stream) {
  if (stream->hidden != 0)
    GiveBackToken(stream->hidden);
  append_(Op{.kind = OpKind::kReleaseLane, .lane = stream->lane});
  by_lane_[stream->lane] = nullptr;
  free_lanes_.push(stream->lane);
}

StreamLanes::Stream* StreamLanes::CreateInternal(uint32_t context) {
  std::unique_ptr<Stream> stream = Make(context);
  Stream* const raw = stream.get();
  internal_[raw->lane] = std::move(stream);
  return raw;
}

void StreamLanes::DestroyInternal(Stream* stream) {
  Release(stream);
  internal_.erase(stream->lane);
}

void StreamLanes::Create(uint32_t context, uint32_t number, TracedStream::Kind kind) {
  std::unique_ptr<Stream> stream = Make(context);
  stream->legacy = kind == TracedStream::Kind::kLegacyDefault;
  stream->blocking = kind == TracedStream::Kind::kBlocking ||
                     kind == TracedStream::Kind::kPerThreadDefault;
  if (stream->legacy)
    contexts_[context].legacy = stream.get();
  streams_[{context, number}] = std::move(stream);
}

StreamLanes::Stream* StreamLanes::Find(uint32_t context, uint32_t number, bool* made) {
  const auto known = streams_.find({context, number});
  if (made != nullptr)
    *made = known == streams_.end();
  if (known != streams_.end())
    return known->second.get();
  Create(context, number,
         number == kLegacyNumber ? TracedStream::Kind::kLegacyDefault
                                 : TracedStream::Kind::kBlocking);
  return streams_[{context, number}].get();
}

void StreamLanes::Destroy(uint32_t context_number, uint32_t number) {
  const auto found = streams_.find({context_number, number});
  if (found == streams_.end())
    return;
  Stream* stream = found->second.get();
  Context& context = contexts_[context_number];
  if (stream->issued > stream->waited) {
    const uint32_t token = TakeToken();
    Record(stream, token);
    if (stream->dirty) {
      if (context.legacy == nullptr)
        Create(context_number, kLegacyNumber, TracedStream::Kind::kLegacyDefault);
      Wait(context.legacy, token);
    }
    context.left.push_back(token);
  }
  std::erase(context.dirty, stream);
  if (context.legacy == stream) {
    context.legacy = nullptr;
    context.legacy_issued = context.legacy_recorded = 0;
  }
  Release(stream);
  streams_.erase(found);
}

uint32_t StreamLanes::TakeToken() {
  if (free_tokens_.empty()) {
    token_ends_.push_back(0);
    return static_cast<uint32_t>(token_ends_.size() - 1);
  }
  const uint32_t token = free_tokens_.top();
  free_tokens_.pop();
  return token;
}

void StreamLanes::Record(Stream* stream, uint32_t token) {
  token_ends_[token] = stream->end_ns;
  append_(Op{.kind = OpKind::kRecordToken, .lane = stream->lane, .a = token});
}

void StreamLanes::Wait(Stream* waiting, uint32_t token) {
  append_(Op{.kind = OpKind::kWaitToken, .lane = waiting->lane, .a = token});
  waiting->end_ns = std::max(waiting->end_ns, token_ends_[token]);
  ++waiting->issued;  // its end may have moved: host waits count it
}

void StreamLanes::Join(Stream* waiting, Stream* before) {
  if (waiting == before)
    return;
  if (before->hidden == 0)
    before->hidden = TakeToken();
  Record(before, before->hidden);
  // The legacy stream's token now covers all of it, which spares the next edge.
  if (before->legacy) {
    Context& context = contexts_[before->context];
    context.legacy_recorded = context.legacy_issued;
  }
  Wait(waiting, before->hidden);
}

void StreamLanes::Before(Stream* stream) {
  if (!stream->legacy && !stream->blocking)
    return;
  Context& context = contexts_[stream->context];
  if (stream->legacy) {
    for (Stream* other : context.dirty) {
      Join(stream, other);
      other->dirty = false;
    }
    context.dirty.clear();
    return;
  }
  if (context.legacy_issued == stream->legacy_seen || context.legacy == nullptr)
    return;
  stream->legacy_seen = context.legacy_issued;
  if (context.legacy_recorded != context.legacy_issued)
    Join(stream, context.legacy);
  else
    Wait(stream, context.legacy->hidden);
}

void StreamLanes::After(Stream* stream) {
  ++stream->issued;
  Context& context = contexts_[stream->context];
  if (stream->legacy) {
    ++context.legacy_issued;
  } else if (stream->blocking && !stream->dirty) {
    stream->dirty = true;
    context.dirty.push_back(stream);
  }
}

std::vector<StreamLanes::Stream*> StreamLanes::Uncovered(Stream* stream) const {
  std::vector<Stream*> covered;
  if (stream->legacy)
    covered = contexts_.at(stream->context).dirty;
  covered.push_back(stream);
  std::erase_if(covered,
                [](const Stream* each) { return each->issued == each->waited; });
  return covered;
}

void StreamLanes::HostWaitLane(Stream* stream) {
  if (stream->issued == stream->waited)
    return;
  append_(Op{.kind = OpKind::kHostWaitLane, .lane = stream->lane});
  stream->waited = stream->issued;
}

int64_t StreamLanes::HostWait(Stream* stream) {
  int64_t end = stream->end_ns;
  for (Stream* each : Uncovered(stream)) {
    HostWaitLane(each);
    end = std::max(end, each->end_ns);
  }
  return end;
}

int64_t StreamLanes::HostWaitForContext(uint32_t context_number) {
  int64_t end = 0;
  Context& context = contexts_[context_number];
  for (const uint32_t token : context.left) {
    append_(Op{.kind = OpKind::kHostWaitToken, .a = token});
    end = std::max(end, token_ends_[token]);
    GiveBackToken(token);
  }
  context.left.clear();
  // The lanes of a graph's branches have ended when the stream has that it ran in.
  for (Stream* stream : by_lane_) {
    if (stream == nullptr || stream->context != context_number ||
        internal_.contains(stream->lane))
      continue;
    HostWaitLane(stream);
    end = std::max(end, stream->end_ns);
  }
  return end;
}

// The freeing stream, where its free may still lie in the future; else nullptr.
StreamLanes::Stream* StreamLanes::Owner(const FreedBy& freed) const {
  Stream* stream = by_lane_[freed.lane];
  const bool pending = stream != nullptr && stream->id == freed.stream_id &&
                       stream->waited < freed.issued;
  return pending ? stream : nullptr;
}

void StreamLanes::FreeRange(Stream* stream, uint64_t begin, uint64_t end) {
  freed_.Add(begin, end, {stream->lane, stream->id, stream->issued});
}

void StreamLanes::TakeRange(Stream* stream, uint64_t begin, uint64_t end) {
  freed_.Take(
      begin, end, stream, [this](const FreedBy& freed) { return Owner(freed); },
      [&](Stream* owner) { Join(stream, owner); });
}

}  // namespace vrank::graph
