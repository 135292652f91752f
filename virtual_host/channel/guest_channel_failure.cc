// What a guest channel answers by itself, once a rank has failed and the emulator has
// stopped to answer: see Channel::aborting. It goes on to answer one question: what
// bytes an earlier result holds.

#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

using protocol::RecordKind;

// Numbers that are taken and not given back: of those a wait may be for ever. A split
// may leave a rank alone; it counts, since its answer is all that would tell.
void GuestChannel::NoteCommunicator(const protocol::Record& record) {
  if (record.kind == RecordKind::kCommInit) {
    const auto& init = reinterpret_cast<const protocol::CommInit&>(record);
    if (init.ranks > 1)
      communicators_.insert(init.communicator);
  } else if (record.kind == RecordKind::kCommSplit) {
    const auto& split = reinterpret_cast<const protocol::CommSplit&>(record);
    if (split.color != protocol::kNoColor)
      communicators_.insert(split.communicator);
  } else if (record.kind == RecordKind::kCommRelease) {
    const auto& release = reinterpret_cast<const protocol::CommRelease&>(record);
    if (release.release != protocol::ReleaseKind::kFinalize &&
        release.release != protocol::ReleaseKind::kStop)
      communicators_.erase(release.communicator);
  }
}

// Others of this rank's questions are not waited for any more: this one alone may be
// under way, so it needs no order.
Answer GuestChannel::FetchAfterFailure(protocol::FetchPayload fetch) {
  Answer answer{.host = Peek(), .end = TimePoint()};  // all of it was computed
  InsideScope inside;
  lock_.Lock();
  fetch.slot = answers_.Take(/*issuer=*/false);
  if (fetch.slot == protocol::kNoSlot) {
    lock_.Unlock();
    return answer;
  }
  fetch.record.host_ns = 0;
  fetch.record.flags |= protocol::kFromHelper;
  ring_.Write(&fetch.record, sizeof fetch, nullptr, 0, /*question=*/true);
  lock_.Unlock();
  const protocol::AnswerSlot* const from = answers_.WaitThroughFailure(fetch.slot);
  answer.end = TimePoint::FromNanoseconds(from->end_ns);
  answer.value = from->value;
  LockGuard guard(&lock_);
  answers_.GiveBack(fetch.slot);
  return answer;
}

Answer GuestChannel::AnswerAfterFailure(const protocol::Record& record) {
  if (record.kind == RecordKind::kFetchPayload)
    return FetchAfterFailure(reinterpret_cast<const protocol::FetchPayload&>(record));
  Answer answer{.host = Peek(), .end = Peek()};
  InsideScope inside;
  LockGuard guard(&lock_);
  if (record.kind == RecordKind::kCommRelease)
    NoteCommunicator(record);
  answer.complete = communicators_.empty();
  return answer;
}

const char* GuestChannel::BrokenBy(uint32_t communicator) const {
  const protocol::BrokenCommunicators& broken = segment_->broken;
  const uint32_t count = broken.count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    if (broken.entries[i].number == communicator)
      return broken.entries[i].reason;
  }
  return nullptr;
}

}  // namespace vrank::host
