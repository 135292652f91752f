#include "emulator/store/gloo_group.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/serialized_object.h"

namespace vrank::emulator {
namespace {

using Kind = GlooMessage::Kind;

uint64_t KindOf(uint64_t slot) {
  return slot >> kGlooKindShift;
}

// A rank whose peer waits already says that it sends, and sends.
void AppendSend(std::string* out, uint64_t slot, std::string_view data) {
  AppendGlooMessage(out, {Kind::kWillSend, slot, data.size(), {}});
  AppendGlooMessage(out, {Kind::kData, slot, data.size(), data});
}

}  // namespace

GlooGroup::Gathering& GlooGroup::GatheringOf(uint64_t slot) {
  // Slots count up.
  while (gatherings_.size() >= kKeptGatherings && !gatherings_.contains(slot))
    gatherings_.erase(gatherings_.begin());
  return gatherings_[slot];
}

uint32_t GlooGroup::Before(uint32_t absent) const {
  while (absent_.contains(absent))
    absent = (absent + size_ - 1) % size_;
  return absent;
}

uint32_t GlooGroup::AbsentAfter(uint32_t real) const {
  uint32_t count = 0;
  while (absent_.contains((real + count + 1) % size_))
    ++count;
  return count;
}

void GlooGroup::Pass(uint64_t slot, Gathering* gathering, Replies* replies) {
  for (auto& [pair, leaving] : gathering->leaving) {
    const uint32_t from = Before(pair.absent);
    const std::vector<std::string>& parts = gathering->entered[from].parts;
    const size_t mirrored = kHalves * AbsentAfter(from);
    while (!leaving.lengths.empty()) {
      const size_t index =
          leaving.sent < mirrored ? leaving.sent % kHalves : leaving.sent - mirrored;
      if (index >= parts.size() || parts[index].size() != leaving.lengths.front())
        break;
      AppendSend(&(*replies)[pair], slot, parts[index]);
      if (leaving.sent < mirrored) {
        mirrored_bytes_ += parts[index].size();
        copied_objects_ += IsSerializedObject(std::as_bytes(std::span(parts[index])));
      }
      leaving.lengths.pop_front();
      ++leaving.sent;
    }
  }
}

GlooGroup::Broadcast& GlooGroup::BroadcastOf(uint64_t slot) {
  while (!broadcasts_.contains(slot) && (broadcasts_.size() >= kKeptBroadcasts ||
                                         broadcast_bytes_ > kKeptBroadcastBytes)) {
    broadcast_bytes_ -= broadcasts_.begin()->second.data.value_or("").size();
    broadcasts_.erase(broadcasts_.begin());
  }
  return broadcasts_[slot];
}

void GlooGroup::PassBroadcast(uint64_t slot, Broadcast* broadcast, Replies* replies) {
  if (!broadcast->data.has_value())
    return;
  for (const auto& [pair, length] : std::exchange(broadcast->waiting, {})) {
    if (length == broadcast->data->size())
      AppendSend(&(*replies)[pair], slot, *broadcast->data);
    else
      SendZeros(pair, slot, length, replies);
  }
}

void GlooGroup::SendZeros(Pair pair, uint64_t slot, uint64_t length, Replies* replies) {
  AppendSend(&(*replies)[pair], slot, std::string(length, '\0'));
  if (length == 0)
    return;
  Zeros& zeros = zeros_.try_emplace(GlooOperation(slot), Zeros{0, pair}).first->second;
  zeros.bytes += length;
}

void GlooGroup::Handle(Pair pair, const GlooMessage& message, Replies* replies) {
  const bool gathers = KindOf(message.slot) == kGlooGatherAll;
  // One real rank alone gives to nobody, and gets from nobody.
  const bool broadcasts =
      KindOf(message.slot) == kGlooBroadcast && size_ - absent_.size() > 1;
  switch (message.kind) {
    case Kind::kWillSend:
      AppendGlooMessage(&(*replies)[pair],
                        {Kind::kWillReceive, message.slot, message.length, {}});
      break;
    case Kind::kData:
      if (gathers) {
        Gathering& gathering = GatheringOf(message.slot);
        Entered& entered = gathering.entered[pair.real];
        const size_t leave = kHalves * (size_ - 1 - AbsentAfter(pair.real));
        if (entered.parts.size() < std::max(kHalves, leave))
          entered.parts.emplace_back(message.data);
        Pass(message.slot, &gathering, replies);
      } else if (broadcasts) {
        Broadcast& broadcast = BroadcastOf(message.slot);
        if (!broadcast.data.has_value()) {
          broadcast.data.emplace(message.data);
          broadcast_bytes_ += message.data.size();
        }
        PassBroadcast(message.slot, &broadcast, replies);
      }
      break;
    case Kind::kWillReceive:
      if (gathers) {
        Gathering& gathering = GatheringOf(message.slot);
        gathering.leaving[pair].lengths.push_back(message.length);
        Pass(message.slot, &gathering, replies);
      } else if (broadcasts) {
        Broadcast& broadcast = BroadcastOf(message.slot);
        broadcast.waiting.emplace_back(pair, message.length);
        PassBroadcast(message.slot, &broadcast, replies);
      } else {
        SendZeros(pair, message.slot, message.length, replies);
      }
      break;
  }
}

bool GlooGroup::HasPending() const {
  for (const auto& [slot, gathering] : gatherings_)
    for (const auto& [pair, leaving] : gathering.leaving)
      if (!leaving.lengths.empty())
        return true;
  return std::any_of(broadcasts_.begin(), broadcasts_.end(),
                     [](const auto& entry) { return !entry.second.waiting.empty(); });
}

void GlooGroup::AnswerPending(Replies* replies) {
  for (auto& [slot, gathering] : gatherings_)
    for (auto& [pair, leaving] : gathering.leaving)
      for (; !leaving.lengths.empty(); leaving.lengths.pop_front(), ++leaving.sent)
        SendZeros(pair, slot, leaving.lengths.front(), replies);
  for (auto& [slot, broadcast] : broadcasts_)
    for (const auto& [pair, length] : std::exchange(broadcast.waiting, {}))
      SendZeros(pair, slot, length, replies);
}

}  // namespace vrank::emulator
