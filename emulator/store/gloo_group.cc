#include "emulator/store/gloo_group.h"

#include <algorithm>

namespace vrank::emulator {
namespace {

using Kind = GlooMessage::Kind;

bool IsGatherAll(uint64_t slot) {
  return slot >> kGlooKindShift == kGlooGatherAll;
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
      mirrored_bytes_ += leaving.sent < mirrored ? parts[index].size() : 0;
      leaving.lengths.pop_front();
      ++leaving.sent;
    }
  }
}

void GlooGroup::Zeros(Pair pair, uint64_t slot, uint64_t length, Replies* replies) {
  AppendSend(&(*replies)[pair], slot, std::string(length, '\0'));
  zero_bytes_ += length;
}

void GlooGroup::Handle(Pair pair, const GlooMessage& message, Replies* replies) {
  const bool gathers = IsGatherAll(message.slot);
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
      }
      break;
    case Kind::kWillReceive:
      if (gathers) {
        Gathering& gathering = GatheringOf(message.slot);
        gathering.leaving[pair].lengths.push_back(message.length);
        Pass(message.slot, &gathering, replies);
      } else {
        Zeros(pair, message.slot, message.length, replies);
      }
      break;
  }
}

bool GlooGroup::HasPending() const {
  for (const auto& [slot, gathering] : gatherings_)
    for (const auto& [pair, leaving] : gathering.leaving)
      if (!leaving.lengths.empty())
        return true;
  return false;
}

void GlooGroup::AnswerPending(Replies* replies) {
  for (auto& [slot, gathering] : gatherings_)
    for (auto& [pair, leaving] : gathering.leaving)
      for (; !leaving.lengths.empty(); leaving.lengths.pop_front(), ++leaving.sent)
        Zeros(pair, slot, leaving.lengths.front(), replies);
}

}  // namespace vrank::emulator
