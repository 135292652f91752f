// Whose turn it is: one thread runs at a time, while the others wait for it, and for
// how long.

#include <algorithm>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/turns/helper_threads.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/session_end.h"

namespace vrank::host {

using State = Helper::State;

void HelperThreads::BeginStop(Helper* self, TurnEnd end) {
  LockGuard guard(&lock_);
  self->signalled = self->owes_stop = false;
  if (end == TurnEnd::kOver || !Runs(self->state))
    self->turn = {++last_turn_};
  if (end == TurnEnd::kOver)
    self->joins = false;
  self->state = State::kRunning;
  Changed();
}

int HelperThreads::RunUntil(TimePoint now, Helper* self, bool others_first) {
  // Where no turns are taken, one of several threads waits for the helpers.
  if (self == nullptr && !turn_.TryLock())
    return 0;
  int given_up = 0;
  lock_.Lock();
  for (;;) {
    given_up += SettleAll(self);
    Helper* next = Earliest();
    if (next == nullptr || next->deadline_ns > now.nanoseconds() ||
        (others_first && header_.others_stirred.load() != 0))
      break;
    Release(next);
  }
  Changed();
  lock_.Unlock();
  if (self == nullptr)
    turn_.Unlock();
  return given_up;
}

bool HelperThreads::MaySleepThrough(const Helper* self, TimePoint deadline) {
  LockGuard guard(&lock_);
  return std::none_of(helpers_.begin(), helpers_.end(), [&](const auto& other) {
    if (!other->issues || other.get() == self)
      return false;
    const bool earlier = std::pair(other->deadline_ns, other->order) <
                         std::pair(deadline.nanoseconds(), self->order);
    return IsInTurn(*other) || (AwaitsLimit(*other) && earlier);
  });
}

// Whoever waits for the GPU has handed over to nobody, and nobody has who issues
// again after another one did, without having waited in between.
bool HelperThreads::IssuesBeside(Helper* self, Helper* before) {
  LockGuard guard(&lock_);
  const bool waited = std::exchange(self->waited, false);
  return before != nullptr && before != self && before->issues &&
         (!waited || before->asks != protocol::kNoSlot);
}

// Waits until all that run wait, those included whom they wake up meanwhile. Returns
// how many compute for too long.
int HelperThreads::SettleAll(const Helper* self) {
  int given_up = 0, turns = 0;
  for (bool again = true; again;) {
    for (const auto& helper : helpers_) {
      if (helper.get() == self)
        continue;
      if (helper->state == State::kBlocked && helper->tid != 0)
        LookAtBlocked(helper.get(), /*counts=*/turns == 0);
      if (helper->open_slot != protocol::kNoSlot)
        AwaitAnswer(helper.get());
    }
    again = false;
    while (Helper* const first = FirstRunning(self)) {
      if (!Settle(first, self))
        ++given_up;
      if (++turns == schedule::kMostTurns)
        return given_up;
      again = true;
    }
  }
  return given_up;
}

// Helpers come in the order in which they were woken, and before any that issue work,
// unless one of those has called them and not stopped yet.
bool HelperThreads::GoesBefore(const Helper& helper, const Helper* self) {
  if (self == nullptr || (self->takes_turns() && !helper.takes_turns()))
    return true;
  if (helper.owes_stop && !self->takes_turns())
    return true;
  return self->takes_turns() == helper.takes_turns() && helper.turn < self->turn;
}

Helper* HelperThreads::FirstRunning(const Helper* self) const {
  Helper* first = nullptr;
  for (const auto& helper : helpers_)
    if (helper.get() != self && IsInTurn(*helper) && GoesBefore(*helper, self) &&
        (first == nullptr || std::pair(helper->takes_turns(), helper->turn) <
                                 std::pair(first->takes_turns(), first->turn)))
      first = helper.get();
  return first;
}

void HelperThreads::LookAtBlocked(Helper* helper, bool counts) {
  if (KernelState(helper->tid) == 'R')
    LetRun(helper, State::kRunning, Place::kFirst);
  else if (counts && ++helper->looks >= schedule::kThreadLooks)
    StopLooking(helper);
}

// An end that is known already must not be passed before the helper has heard of it.
// One that depends on what other ranks are going to do is told later.
void HelperThreads::AwaitAnswer(Helper* helper) {
  Duration nap = schedule::kFirstThreadLook;
  while (helper->open_slot != protocol::kNoSlot && helper->state == State::kParked) {
    const bool settled = header_.settled.load() >= helper->asked_at;
    if (answers_->IsAnswered(helper->open_slot)) {
      GoesOnAnswered(helper);
      return;
    }
    if (settled || HasFailed(header_))
      return;
    const uint32_t seen = header_.thread_changes.load();
    lock_.Unlock();
    FutexWait(&header_.thread_changes, seen, nap, /*shared=*/true);
    ExitIfAborting(header_);
    lock_.Lock();
    nap = std::min(nap + nap, schedule::kLongestThreadLook);
  }
}

// Adds its CPU time.
bool HelperThreads::TeamRuns(Duration* cpu) {
  bool any = team_starts_.load() > 0;
  std::erase_if(team_, [&](pid_t tid) {
    const char state = KernelState(tid);
    if (state != 0)
      *cpu = *cpu + CpuTime(tid);
    any |= state != 0 && !Waits(state);
    return state == 0;
  });
  return any;
}

// A nap, and a look at whether it waits by now.
HelperThreads::Seen HelperThreads::LookAtRunning(Helper* helper, Watch* watch) {
  const uint32_t before = header_.thread_changes.load();
  const bool keeps_turn = helper->asks != protocol::kNoSlot || helper->keeps_turn;
  if (keeps_turn || helper->stops) {
    if (keeps_turn && MayPass(helper, watch))
      return Seen::kWaits;
    SleepUntilChanged(before);
    return Seen::kNothing;
  }
  lock_.Unlock();
  Nap(&header_.nappers, &header_.thread_changes, before, watch->nap, /*shared=*/true);
  ExitIfAborting(header_);
  lock_.Lock();
  watch->nap = std::min(watch->nap + watch->nap, schedule::kLongestThreadLook);
  if (!IsInTurn(*helper) || header_.thread_changes.load() != before || helper->tid == 0)
    return Seen::kNothing;
  if (helper->asks != protocol::kNoSlot || helper->keeps_turn)
    return Seen::kNothing;
  if (helper->stops || waking_.load() != 0 ||
      (helper->issues && header_.guest_waits_for_room.load() != 0))
    return Seen::kNothing;
  char state = 0;
  Duration cpu = CpuTime(helper->tid);
  if (!TeamRuns(&cpu)) {
    if (WaitsOutside(*helper, &state) || watch->inside == schedule::kInsideLooks)
      return Seen::kWaits;
    watch->inside = Waits(state) ? watch->inside + 1 : 0;
  }
  if (!watch->cpu_at_start.has_value())
    watch->cpu_at_start = cpu;
  if (cpu - *watch->cpu_at_start < watch->patience)
    return Seen::kNothing;
  if (watch->patience < schedule::kThreadTurn)
    return Seen::kComputes;
  ++helper->strikes;
  helper->state = State::kLoose;
  return Seen::kLeftBehind;
}

// One that issues work holds up the rank's program: the others wait for the answer, or
// for what another rank is to send. Only where nobody else can bring that, which the
// emulator says, they go on.
bool HelperThreads::MayPass(Helper* helper, Watch* watch) {
  if (!helper->issues) {
    if (watch->by_driver)
      Lend(helper);
    return false;
  }
  if (helper->asks != protocol::kNoSlot && answers_->IsAnswered(helper->asks))
    return false;
  const bool passed =
      header_.turn_passed.load() == helper->asked_at || HasFailed(header_);
  if (!passed)
    header_.turn_wanted.store(helper->asked_at);
  return passed;
}

// Nobody looks again and again meanwhile: that would be no rest, in which alone the
// emulator says what it is asked.
void HelperThreads::SleepUntilChanged(uint32_t seen) {
  lock_.Unlock();
  FutexWait(&header_.thread_changes, seen, schedule::kFutexSlice, /*shared=*/true);
  ExitIfAborting(header_);
  lock_.Lock();
}

// Waits until the helper waits, or another one comes before it, or its turn comes after
// that of `self`. False: it computes for too long.
bool HelperThreads::Settle(Helper* helper, const Helper* self) {
  Watch watch{.by_driver = true};
  int kicks = 0;
  bool in_time = true;
  watchers_.fetch_add(1);
  while (FirstRunning(self) == helper) {
    const Seen seen = LookAtRunning(helper, &watch);
    if (seen == Seen::kWaits && SettleBlocked(helper, &kicks))
      break;
    in_time = seen != Seen::kLeftBehind;
  }
  watchers_.fetch_sub(1);
  return in_time;
}

void HelperThreads::AwaitStart(Helper* helper, const Helper* self) {
  LockGuard guard(&lock_);
  Watch watch{.patience = schedule::kStart};
  Seen seen = Seen::kNothing;
  watchers_.fetch_add(1);
  while (seen == Seen::kNothing && IsInTurn(*helper) && GoesBefore(*helper, self))
    seen = LookAtRunning(helper, &watch);
  watchers_.fetch_sub(1);
  if (seen == Seen::kWaits)
    Blocks(helper);
  Changed();
}

int HelperThreads::AwaitTurn(Helper* self) {
  LockGuard guard(&lock_);
  int given_up = 0;
  const Helper* watched = nullptr;
  Watch watch;
  watchers_.fetch_add(1);
  for (;;) {
    Helper* const first = FirstRunning(self);
    if (first == nullptr)
      break;
    if (std::exchange(watched, first) != first)
      watch = {};
    const Seen seen = LookAtRunning(first, &watch);
    // Whoever has released a helper watches it, too, and kicks it.
    if (seen == Seen::kWaits && first->state != State::kReleased) {
      Blocks(first);
      Changed();
    }
    given_up += seen == Seen::kLeftBehind ? 1 : 0;
  }
  watchers_.fetch_sub(1);
  return given_up;
}

// Whether it waits, and was not inside this library while the kernel said so.
bool HelperThreads::WaitsOutside(const Helper& helper, char* state) {
  const std::atomic_ref<uint32_t> passages(*helper.passages);
  const uint32_t before = passages.load();
  *state = KernelState(helper.tid);
  return Waits(*state) && before % 2 == 0 && passages.load() == before;
}

// The kernel says that it waits. False: look again soon.
bool HelperThreads::SettleBlocked(Helper* helper, int* kicks) {
  if (helper->state == State::kReleased && *kicks < schedule::kKicks) {
    // It was about to go to sleep when it was kicked, or it waits for its lock.
    ++*kicks;
    helper->kick(helper);
    return false;
  }
  Blocks(helper);
  return true;
}

// Where its object was signalled: the signal went to somebody else, or the thread waits
// for the lock that comes with it.
void HelperThreads::Blocks(Helper* helper) {
  helper->looks = 0;
  if (helper->keeps_turn) {
    helper->keeps_turn = false;
    WantNoTurn(*helper);
  } else if (helper->asks != protocol::kNoSlot) {
    WantNoTurn(*helper);
    helper->open_slot = helper->asks;
    helper->state = State::kParked;
  } else if (helper->signalled && helper->guessed) {
    helper->signalled = false;  // it has only looked at its limit
    helper->written_ns = kNever;
    helper->state = State::kParked;
  } else {
    helper->waited = true;
    helper->state = State::kBlocked;
  }
}

void HelperThreads::WantNoTurn(const Helper& helper) {
  uint64_t behind = helper.asked_at;
  header_.turn_wanted.compare_exchange_strong(behind, 0);
}

void HelperThreads::StopLooking(Helper* helper) {
  const bool was_for_another = std::exchange(helper->signalled, false);
  helper->state = was_for_another ? State::kParked : State::kQuiet;
}

// While the driver waits for a helper that waits for the emulator, the rank can do
// nothing: the emulator must know, since only then it decides open questions.
void HelperThreads::Lend(Helper* helper) {
  const uint32_t slot = helper->asks;
  if (slot != protocol::kNoSlot && answers_->BecomeIssuer(slot))
    header_.running_issuers.fetch_sub(1);
}

}  // namespace vrank::host
