// One list of free ranges; beside it, which stream freed what.

#include "virtual_gpu/core/pool.h"

#include <algorithm>

namespace vrank::gpu {
namespace {

uint64_t Rounded(uint64_t bytes) {
  return RoundUp(bytes, DeviceMemory::kAlignment);
}

}  // namespace

bool Pool::Grow(uint64_t bytes) {
  for (uint64_t size : {RoundUp(bytes, kChunk), RoundUp(bytes, DeviceMemory::kBlock)}) {
    if (max_bytes != 0 && reserved + size > max_bytes)
      continue;
    const uint64_t address = memory->TakeBlocks(size);
    if (address == 0)
      continue;
    chunks_[address] = size;
    free_.Add(address, address + size);
    reserved += size;
    reserved_high = std::max(reserved_high, reserved);
    return true;
  }
  return false;
}

// The freeing stream, where its free may still lie in the future; else nullptr.
Stream* Pool::Owner(const FreedBy& freed) const {
  Stream* stream = lanes->FindLane(freed.lane);
  const bool pending = stream != nullptr && stream->id == freed.stream_id &&
                       stream->waited < freed.issued;
  return pending ? stream : nullptr;
}

bool Pool::HasForeign(uint64_t begin, uint64_t end, const Stream* stream) const {
  return freed_.HasForeign(begin, end, stream,
                           [this](const FreedBy& freed) { return Owner(freed); });
}

// Lets `stream` follow those who freed parts of [begin, end).
void Pool::TakeOver(uint64_t begin, uint64_t end, Stream* stream) {
  freed_.Take(
      begin, end, stream, [this](const FreedBy& freed) { return Owner(freed); },
      [&](Stream* owner) { lanes->Join(stream, owner); });
}

Allocation* Pool::Allocate(uint64_t bytes, Stream* stream) {
  if (bytes > memory->capacity())
    return nullptr;
  const uint64_t rounded = Rounded(bytes);
  auto address = free_.Take(rounded, DeviceMemory::kAlignment);
  if (address && internal_dependencies == 0 &&
      HasForeign(*address, *address + rounded, stream)) {
    // Not ours to wait for: take new memory instead.
    const uint64_t refused = *address;
    address =
        Grow(rounded) ? free_.Take(rounded, DeviceMemory::kAlignment) : std::nullopt;
    free_.Add(refused, refused + rounded);
  } else if (!address && Grow(rounded)) {
    address = free_.Take(rounded, DeviceMemory::kAlignment);
  }
  if (!address)
    return nullptr;
  TakeOver(*address, *address + rounded, stream);
  used += rounded;
  used_high = std::max(used_high, used);
  return memory->AddInPool(*address, bytes, this);
}

void Pool::Free(Allocation* allocation, Stream* stream) {
  const uint64_t begin = allocation->base;
  const uint64_t rounded = Rounded(allocation->bytes);
  memory->RemoveFromPool(allocation);
  free_.Add(begin, begin + rounded);
  used -= rounded;
  if (stream != nullptr)
    freed_.Add(begin, begin + rounded, {stream->lane, stream->id, stream->issued});
}

void Pool::Trim(uint64_t keep) {
  for (auto it = chunks_.end(); it != chunks_.begin() && reserved > keep;) {
    --it;
    const auto [begin, bytes] = *it;
    if (HasForeign(begin, begin + bytes, nullptr) ||
        !free_.TakeExactly(begin, begin + bytes))
      continue;
    TakeOver(begin, begin + bytes, nullptr);
    memory->GiveBackBlocks(begin, bytes);
    reserved -= bytes;
    it = chunks_.erase(it);
  }
}

void Pool::Clear() {
  for (const auto& [begin, bytes] : chunks_)
    memory->GiveBackBlocks(begin, bytes);
  chunks_.clear();
  freed_.Clear();
  free_ = {};
  reserved = used = 0;
}

uint64_t* Pool::Attribute(PoolAttribute attribute) {
  switch (attribute) {
    case PoolAttribute::kReuseFollowEventDependencies:
      return &follow_events;
    case PoolAttribute::kReuseAllowOpportunistic:
      return &opportunistic;
    case PoolAttribute::kReuseAllowInternalDependencies:
      return &internal_dependencies;
    case PoolAttribute::kReleaseThreshold:
      return &release_threshold;
    case PoolAttribute::kReservedCurrent:
      return &reserved;
    case PoolAttribute::kReservedHigh:
      return &reserved_high;
    case PoolAttribute::kUsedCurrent:
      return &used;
    case PoolAttribute::kUsedHigh:
      return &used_high;
  }
  return nullptr;
}

}  // namespace vrank::gpu
