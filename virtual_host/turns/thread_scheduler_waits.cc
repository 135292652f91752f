// How a thread waits for its turn: it blocks until all threads before it wait, checks
// that with the kernel, and leaves behind a thread that computes for too long.

#include <algorithm>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_scheduler.h"

namespace vrank::host {

void ThreadScheduler::BeginStop(HostThread* self, TurnEnd end) {
  LockGuard guard(&lock_);
  queue_.Stop(self, /*over=*/end == TurnEnd::kOver);
  Changed();
}

int ThreadScheduler::RunUntil(TimePoint now, HostThread* self, bool others_first) {
  // Threads without a place in the queue: one of them waits for the helpers.
  if (self == nullptr && !turn_.TryLock())
    return 0;
  int given_up = 0;
  lock_.Lock();
  for (;;) {
    given_up += SettleAll(self);
    auto* const next = static_cast<HostThread*>(queue_.Earliest());
    if (next == nullptr || next->deadline_ns > now.nanoseconds())
      break;
    if (others_first && (header_.others_stirred.load() != 0 ||
                         header_.others_gate_ns.load() < next->deadline_ns))
      break;
    Release(next);
  }
  Changed();
  lock_.Unlock();
  if (self == nullptr)
    turn_.Unlock();
  return given_up;
}

bool ThreadScheduler::MaySleepThrough(const HostThread* self, TimePoint deadline) {
  // A process whose wait ends before may wake a driver of this one.
  if (header_.others_gate_ns.load() < deadline.nanoseconds())
    return false;
  LockGuard guard(&lock_);
  return queue_.MaySleepThrough(*self, deadline.nanoseconds());
}

bool ThreadScheduler::AnotherDriverHasLimit(const HostThread* self) {
  LockGuard guard(&lock_);
  return queue_.AnotherDriverHasLimit(*self);
}

bool ThreadScheduler::AnotherMayRun(const HostThread* self) {
  if (header_.others_gate_ns.load() != kNever || header_.others_stirred.load() != 0)
    return true;
  LockGuard guard(&lock_);
  return queue_.AnotherMayRun(*self);
}

bool ThreadScheduler::IssuesBeside(HostThread* self, HostThread* before) {
  LockGuard guard(&lock_);
  return queue_.IssuesBeside(self, before);
}

// Waits until every thread before `self` waits, including those woken meanwhile.
// Returns how many were left behind.
int ThreadScheduler::SettleAll(const HostThread* self) {
  int given_up = 0, turns = 0;
  for (bool again = true; again;) {
    for (const auto& thread : threads_) {
      if (thread.get() == self)
        continue;
      if (thread->state == State::kBlocked && thread->tid != 0)
        LookAtBlocked(thread.get(), /*counts=*/turns == 0);
      if (thread->open_slot != protocol::kNoSlot)
        AwaitAnswer(thread.get());
    }
    again = false;
    while (HostThread* const first = FirstBefore(self)) {
      if (!Settle(first, self))
        ++given_up;
      if (++turns == schedule::kMostTurns)
        return given_up;
      again = true;
    }
  }
  return given_up;
}

void ThreadScheduler::LookAtBlocked(HostThread* thread, bool counts) {
  if (KernelState(thread->tid) == 'R')
    queue_.LetRun(thread, State::kRunning, Place::kFirst);
  else if (counts && ++thread->looks >= schedule::kThreadLooks)
    queue_.StopLooking(thread);
}

// If the end of work is known already, the clock must not pass it before the helper has
// received the answer. If it depends on future operations of other ranks, the answer
// comes later.
void ThreadScheduler::AwaitAnswer(HostThread* thread) {
  Duration nap = schedule::kFirstLook;
  while (thread->open_slot != protocol::kNoSlot && thread->state == State::kParked) {
    const bool settled = header_.settled.load() >= thread->asked_at;
    if (answers_->IsAnswered(thread->open_slot)) {
      queue_.GoOnAnswered(thread);
      return;
    }
    if (settled || HasFailed(header_))
      return;
    const uint32_t seen = header_.thread_changes.load();
    lock_.Unlock();
    FutexWait(&header_.thread_changes, seen, nap, /*shared=*/true);
    ExitIfAborting(header_);
    lock_.Lock();
    nap = std::min(nap + nap, schedule::kLongestLook);
  }
}

// Sleeps for a moment, then checks whether the thread waits.
ThreadScheduler::Seen ThreadScheduler::LookAtRunning(HostThread* thread, Watch* watch) {
  const uint32_t before = header_.thread_changes.load();
  const bool keeps_turn = thread->asks != protocol::kNoSlot || thread->keeps_turn;
  if (keeps_turn || thread->stops) {
    if (keeps_turn && MayPass(thread, watch))
      return Seen::kWaits;
    SleepUntilChanged(before);
    return Seen::kNothing;
  }
  lock_.Unlock();
  Nap(&header_.nappers, &header_.thread_changes, before, watch->nap, /*shared=*/true);
  ExitIfAborting(header_);
  lock_.Lock();
  watch->nap = std::min(watch->nap + watch->nap, schedule::kLongestLook);
  if (!queue_.IsInTurn(*thread) || header_.thread_changes.load() != before ||
      thread->tid == 0)
    return Seen::kNothing;
  if (thread->asks != protocol::kNoSlot || thread->keeps_turn)
    return Seen::kNothing;
  if (thread->stops || waking_.load() != 0 ||
      (thread->issues && header_.guest_waits_for_room.load() != 0))
    return Seen::kNothing;
  char state = 0;
  Duration cpu = CpuTime(thread->tid);
  if (!team_.Runs(&cpu)) {
    if (WaitsOutside(*thread, &state) || watch->inside == schedule::kInsideLooks)
      return Seen::kWaits;
    watch->inside = Waits(state) ? watch->inside + 1 : 0;
  }
  if (!watch->cpu_at_start.has_value())
    watch->cpu_at_start = cpu;
  if (cpu - *watch->cpu_at_start < watch->patience)
    return Seen::kNothing;
  if (watch->patience < schedule::kThreadTurn)
    return Seen::kComputes;
  ++thread->strikes;
  thread->state = State::kLoose;
  return Seen::kLeftBehind;
}

// A driver that waits for the emulator or for another rank keeps its turn. The other
// threads run only if they alone can end that wait, which the emulator decides.
bool ThreadScheduler::MayPass(HostThread* thread, Watch* watch) {
  if (!thread->issues) {
    if (watch->by_driver)
      Lend(thread);
    return false;
  }
  if (thread->asks != protocol::kNoSlot && answers_->IsAnswered(thread->asks))
    return false;
  const bool passed =
      header_.turn_passed.load() == thread->asked_at || HasFailed(header_);
  if (!passed)
    header_.turn_wanted.store(thread->asked_at);
  return passed;
}

// Blocks without polling: the emulator decides what it is asked only while all threads
// rest.
void ThreadScheduler::SleepUntilChanged(uint32_t seen) {
  lock_.Unlock();
  FutexWait(&header_.thread_changes, seen, schedule::kFutexSlice, /*shared=*/true);
  ExitIfAborting(header_);
  lock_.Lock();
}

// Waits until `thread` waits, or is no longer the first one before `self`. False: it
// computes for too long.
bool ThreadScheduler::Settle(HostThread* thread, const HostThread* self) {
  Watch watch{.by_driver = true};
  int kicks = 0;
  bool in_time = true;
  watchers_.fetch_add(1);
  while (FirstBefore(self) == thread) {
    const Seen seen = LookAtRunning(thread, &watch);
    if (seen == Seen::kWaits && SettleBlocked(thread, &kicks))
      break;
    in_time = seen != Seen::kLeftBehind;
  }
  watchers_.fetch_sub(1);
  return in_time;
}

bool ThreadScheduler::AwaitStart(HostThread* thread, const HostThread* self) {
  LockGuard guard(&lock_);
  Watch watch{.patience = schedule::kStart};
  Seen seen = Seen::kNothing;
  watchers_.fetch_add(1);
  while (seen == Seen::kNothing && queue_.IsInTurn(*thread) &&
         queue_.GoesBefore(*thread, self))
    seen = LookAtRunning(thread, &watch);
  watchers_.fetch_sub(1);
  if (seen == Seen::kWaits)
    Blocks(thread);
  Changed();
  return seen == Seen::kNothing || seen == Seen::kWaits;
}

int ThreadScheduler::AwaitTurn(HostThread* self) {
  LockGuard guard(&lock_);
  int given_up = 0;
  const HostThread* watched = nullptr;
  Watch watch;
  watchers_.fetch_add(1);
  for (;;) {
    HostThread* const first = FirstBefore(self);
    if (first == nullptr)
      break;
    if (std::exchange(watched, first) != first)
      watch = {};
    const Seen seen = LookAtRunning(first, &watch);
    // The thread that released a helper watches it as well, and kicks it.
    if (seen == Seen::kWaits && first->state != State::kReleased) {
      Blocks(first);
      Changed();
    }
    given_up += seen == Seen::kLeftBehind ? 1 : 0;
  }
  watchers_.fetch_sub(1);
  return given_up;
}

// Whether the kernel reports that it waits, and it was outside of this library then.
bool ThreadScheduler::WaitsOutside(const HostThread& thread, char* state) {
  const std::atomic_ref<uint32_t> passages(*thread.passages);
  const uint32_t before = passages.load();
  *state = KernelState(thread.tid);
  return Waits(*state) && before % 2 == 0 && passages.load() == before;
}

// The kernel reports that it waits. False: check again soon.
bool ThreadScheduler::SettleBlocked(HostThread* thread, int* kicks) {
  if (thread->state == State::kReleased && *kicks < schedule::kKicks) {
    // It was about to sleep when it was kicked, or it waits for its mutex.
    ++*kicks;
    thread->kick(thread);
    return false;
  }
  Blocks(thread);
  return true;
}

void ThreadScheduler::Blocks(HostThread* thread) {
  thread->looks = 0;
  queue_.Block(thread);
  WithdrawTurn();
}

// While a driver waits for a helper that waits for the emulator, no thread of the rank
// runs. The emulator has to know that, since it decides open queries only then.
void ThreadScheduler::Lend(HostThread* thread) {
  const uint32_t slot = thread->asks;
  if (slot != protocol::kNoSlot && answers_->BecomeIssuer(slot))
    header_.running_issuers.fetch_sub(1);
}

}  // namespace vrank::host
