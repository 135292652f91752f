// Queries that are answered in the guest, and waits that block the calling thread
// alone.

#include <algorithm>

#include "virtual_host/channel/guest_channel.h"
#include "virtual_host/channel/timed_wait.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

std::optional<Answer> GuestChannel::AnswerByBound(protocol::HostQuery* query) {
  const int64_t until_ns = bound_.until_ns.load(std::memory_order_relaxed);
  if (until_ns <= header_.host_now_ns.load(std::memory_order_relaxed) ||
      !ClockIsLocal())
    return std::nullopt;
  InsideScope inside;
  LockGuard guard(&lock_);
  SpendForOthers();
  if (bound_.kind != query->target_kind || bound_.target != query->target ||
      bound_.until_ns.load(std::memory_order_relaxed) <= ProcessNow().nanoseconds())
    return std::nullopt;
  query->slot = protocol::kNoSlot;
  query->known_complete = 0;
  Append(&query->record, sizeof *query, nullptr, 0, /*question=*/false);
  return Answer{.host = ProcessNow(), .end = TimePoint::FromNanoseconds(until_ns)};
}

// `alone`: no other thread has written since the question, nor woken others up.
// REQUIRES: lock_ held.
void GuestChannel::NoteBound(const protocol::HostQuery& query, const Answer& answer,
                             bool alone) {
  bound_.kind = query.target_kind;
  bound_.target = query.target;
  bound_.until_ns = answer.complete || !alone ? 0 : answer.end.nanoseconds();
}

// Beside other real ranks, which of a limit and an answer that hangs on their calls
// comes first would be chance.
bool GuestChannel::AnotherHasLimit() {
  HostThread* const self = Turn();
  if (self == nullptr || !DrivesClock() || protocol::HasRealPeers(settings()))
    return false;
  InsideScope inside;
  if (scheduler_.SeveralIssue() && scheduler_.AnotherDriverHasLimit(self))
    return true;
  return joins_late_.load(std::memory_order_relaxed) && scheduler_.AnotherMayRun(self);
}

// A wait for the GPU may move the process clock past the limits of helpers, which then
// run on their own clocks. A helper that issues work continues on the process clock, so
// that its first work is late by the rest of the wait.
void GuestChannel::NoteLateJoin() {
  constexpr int64_t kLateNs = 100'000;  // a choice
  const HostThread* const helper = thread_state.helper;
  if (helper != nullptr && !protocol::HasRealPeers(settings()) &&
      helper->clock_ns.load() + kLateNs < ProcessNow().nanoseconds())
    joins_late_.store(true);
}

// The emulator answers as it answers a helper: beside the rank's program, which goes
// on. The clock then moves to the end, as time that the process has spent: at once
// where threads wait for each other's work, else as in a sleep, so that what others
// wait for comes first.
Answer GuestChannel::AskBeside(protocol::HostWait wait) {
  Answer answer;
  {
    InsideScope inside;
    HostThread* const self = Turn();
    lock_.Lock();
    SendHostTime();
    wait.record.host_ns = 0;
    wait.record.flags |= protocol::kFromHelper;
    wait.slot = TakeSlot(/*issuer=*/true);
    ring_.Write(&wait.record, sizeof wait, nullptr, 0, /*question=*/true);
    lock_.Unlock();
    if (self != nullptr)
      scheduler_.ParkAsking(self, wait.slot);
    header_.running_issuers.fetch_sub(1);
    const protocol::AnswerSlot* const from = answers_.Wait(wait.slot);
    if (self != nullptr) {
      scheduler_.Unpark(self, TimePoint());
      scheduler_.AwaitTurn(self);
    }
    if (from == nullptr)
      return AnswerAfterFailure(wait.record);
    LockGuard guard(&lock_);
    answer.end = TimePoint::FromNanoseconds(from->end_ns);
    answers_.GiveBack(wait.slot);
    if (waits_beside_.load(std::memory_order_relaxed))
      SpendWaited(from->end_ns);
    answer.complete = true;
  }
  if (HostThread* const self = Turn();
      self != nullptr && !waits_beside_.load(std::memory_order_relaxed))
    SleepAsHelper(this, self, answer.end);
  answer.host = Peek();
  Stop(ThreadScheduler::TurnEnd::kGoesOn);
  return answer;
}

// A thread alone has waited for the end: the clock moves there as by work. REQUIRES:
// lock_ held.
void GuestChannel::SpendWaited(int64_t end_ns) {
  SpendForOthers();
  const int64_t left = end_ns - header_.host_now_ns.load(std::memory_order_relaxed);
  if (left > 0)
    SpendLocked(Duration::Nanoseconds(left), /*assumed=*/false);
}

}  // namespace vrank::host
