#include "virtual_host/helper_threads.h"

#include <algorithm>
#include <utility>

#include "virtual_host/kernel_thread.h"
#include "virtual_host/raw_syscall.h"
#include "virtual_host/session_end.h"
#include "virtual_host/thread_state.h"

namespace vrank::host {
namespace {

using State = Helper::State;

// After this many times nobody waits for the thread any more.
constexpr int kStrikes = 3;
// CPU time in one turn: a thread that saves a checkpoint copies for long.
constexpr Duration kTurn = Duration::Seconds(1);
// Safe points at which a helper that waits unseen is looked at (7 us each).
constexpr int kLooks = 64;
// A helper that waits inside this library for as many looks (1 ms each) waits for no
// lock of ours: for an answer to somebody else, a place among the open questions.
constexpr int kLooksInside = 64;
// A released helper that still waits after as many kicks waits for a lock.
constexpr int kKicks = 4;

bool Runs(State state) {
  return state == State::kRunning || state == State::kReleased;
}

}  // namespace

// ---------------------------------------------------------------------------------
// A thread's life
// ---------------------------------------------------------------------------------

Helper* HelperThreads::Announce(TimePoint clock) {
  LockGuard guard(&lock_);
  any_ = true;
  Helper* made = nullptr;
  for (const auto& helper : helpers_)
    if (helper->state == State::kFree)
      made = helper.get();
  if (made == nullptr) {
    helpers_.push_back(std::make_unique<Helper>());
    made = helpers_.back().get();
  }
  made->tid = 0;
  made->order = next_order_++;
  made->deadline_ns = kNever;
  made->object = nullptr;
  made->looks = made->strikes = 0;
  made->signalled = made->expired = false;
  made->open_slot = protocol::kNoSlot;
  made->asks = protocol::kNoSlot;
  made->clock_ns = clock.nanoseconds();
  made->state = State::kRunning;
  Changed();
  return made;
}

void HelperThreads::Begin(Helper* helper) {
  LockGuard guard(&lock_);
  helper->tid = static_cast<pid_t>(RawSyscall(SYS_gettid));
  helper->passages = &thread_state.passages;
}

void HelperThreads::End(Helper* helper) {
  LockGuard guard(&lock_);
  helper->state = State::kFree;
  Changed();
}

void HelperThreads::ForgetAll() {
  lock_.ResetAfterFork();
  turn_.ResetAfterFork();
  for (const auto& helper : helpers_)
    helper->state = State::kFree;
  driver_waits_.clear();
  gate_ns_ = kNever;
  waiting_drivers_ = 0;
  ticket_ = 0;
  published_ns_ = kNever;
}

// ---------------------------------------------------------------------------------
// Called by helpers
// ---------------------------------------------------------------------------------

void HelperThreads::Touch(Helper* helper, TimePoint clock) {
  const State state = helper->state.load(std::memory_order_relaxed);
  if (state == State::kRunning || state == State::kParked || state == State::kReleased)
    return;
  LockGuard guard(&lock_);
  // In one turn it keeps its clock; after a long wait it is as late as everybody.
  if (helper->state == State::kQuiet || helper->state == State::kLoose)
    helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
  if (helper->state != State::kLoose)
    helper->state = State::kRunning;
  Changed();
}

void HelperThreads::Park(Helper* helper, int64_t deadline_ns, const void* object,
                         Helper::Kick kick, uint64_t kick_argument) {
  LockGuard guard(&lock_);
  helper->deadline_ns = deadline_ns;
  helper->object = object;
  helper->kick = kick;
  helper->kick_argument = kick_argument;
  helper->signalled = helper->expired = false;
  helper->state = State::kParked;
  Changed();
}

void HelperThreads::ParkAsking(Helper* helper, uint32_t slot) {
  Park(helper, kNever, nullptr, nullptr);
  LockGuard guard(&lock_);
  helper->asked_at = header_.written.load();
  helper->open_slot = slot;
  Changed();
}

void HelperThreads::ParkAgain(Helper* helper) {
  LockGuard guard(&lock_);
  if (!helper->signalled)
    return;
  helper->signalled = false;
  helper->state = State::kParked;
  Changed();
}

void HelperThreads::SetAsks(Helper* helper, uint32_t slot) {
  LockGuard guard(&lock_);
  helper->asks = slot;
}

HelperThreads::Outcome HelperThreads::Look(Helper* helper) {
  LockGuard guard(&lock_);
  if (helper->signalled)
    return Outcome::kSignalled;
  return helper->expired ? Outcome::kExpired : Outcome::kWaits;
}

void HelperThreads::Unpark(Helper* helper, TimePoint clock) {
  LockGuard guard(&lock_);
  // Neither a limit nor a signal that we saw: whoever woke it is as late as the
  // process.
  if (!helper->expired && !helper->signalled)
    helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
  helper->object = nullptr;
  helper->kick = nullptr;
  helper->deadline_ns = kNever;
  helper->signalled = false;
  helper->open_slot = protocol::kNoSlot;
  helper->looks = 0;
  helper->state = helper->strikes < kStrikes ? State::kRunning : State::kLoose;
  Changed();
}

// ---------------------------------------------------------------------------------
// Called by anybody
// ---------------------------------------------------------------------------------

void HelperThreads::Signal(const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  bool any = false;
  for (const auto& helper : helpers_) {
    if (helper->object != object || helper->state != State::kParked)
      continue;
    helper->signalled = true;
    helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
    helper->state = State::kRunning;
    any = true;
  }
  for (DriverWait* wait : driver_waits_)
    wait->signalled |= wait->object == object;
  if (any)
    Changed();
}

// What is taken for woken but only looks whether its limit is over waits again, as
// after a signal that was for another thread.
bool HelperThreads::SignalWoken(TimePoint clock) {
  LockGuard guard(&lock_);
  bool any = false;
  for (const auto& helper : helpers_) {
    const bool waits =
        helper->state == State::kParked || helper->state == State::kQuiet;
    if (!waits || helper->tid == 0 || Waits(KernelState(helper->tid)))
      continue;
    helper->signalled = helper->state == State::kParked;
    helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
    helper->state = State::kRunning;
    any = true;
  }
  if (any)
    Changed();
  return any;
}

void HelperThreads::KickWaiters(const void* object) {
  LockGuard guard(&lock_);
  for (const auto& helper : helpers_)
    if (helper->object == object && helper->kick != nullptr)
      helper->kick(helper.get());
}

// ---------------------------------------------------------------------------------
// Called by drivers
// ---------------------------------------------------------------------------------

int HelperThreads::RunUntil(TimePoint now) {
  // Where several threads issue work at once, one of them waits for the helpers.
  if (!turn_.TryLock())
    return 0;
  int given_up = 0;
  lock_.Lock();
  for (;;) {
    for (size_t i = 0; i < helpers_.size(); ++i) {
      Helper* helper = helpers_[i].get();
      if (helper->state == State::kBlocked && helper->tid != 0) {
        if (KernelState(helper->tid) == 'R')
          helper->state = State::kRunning;
        else if (++helper->looks >= kLooks)
          StopLooking(helper);
      }
      if (helper->open_slot != protocol::kNoSlot)
        AwaitAnswer(helper);
      if (Runs(helper->state) && !Settle(helper))
        ++given_up;
    }
    Helper* next = Earliest();
    if (next == nullptr || next->deadline_ns > now.nanoseconds())
      break;
    Release(next);
  }
  Changed();
  lock_.Unlock();
  turn_.Unlock();
  return given_up;
}

// An end that is known already must not be passed before the helper has heard of it.
// One that depends on what other ranks are going to do is told later.
void HelperThreads::AwaitAnswer(Helper* helper) {
  Duration nap = kFirstNap;
  while (helper->open_slot != protocol::kNoSlot && helper->state == State::kParked) {
    const bool settled = header_.settled.load() >= helper->asked_at;
    if (answers_->IsAnswered(helper->open_slot)) {
      helper->state = State::kRunning;
      return;
    }
    if (settled || HasFailed(header_))
      return;
    const uint32_t seen = changes_.load();
    lock_.Unlock();
    FutexWait(&changes_, seen, nap, /*shared=*/false);
    ExitIfAborting(header_);
    lock_.Lock();
    nap = std::min(nap + nap, kLongestNap);
  }
}

// Waits until the helper waits. False: it computes for too long.
bool HelperThreads::Settle(Helper* helper) {
  Duration nap = kFirstNap;
  std::optional<Duration> cpu_at_start;
  int kicks = 0, inside = 0;
  waiting_drivers_.fetch_add(1);
  bool in_time = true;
  while (Runs(helper->state)) {
    const uint32_t seen = changes_.load();
    lock_.Unlock();
    FutexWait(&changes_, seen, nap, /*shared=*/false);
    ExitIfAborting(header_);
    lock_.Lock();
    nap = std::min(nap + nap, kLongestNap);
    if (!Runs(helper->state) || changes_.load() != seen || helper->tid == 0)
      continue;
    if (helper->asks != protocol::kNoSlot) {
      Lend(helper);
      continue;
    }
    char state = 0;
    if (WaitsOutside(*helper, &state) || inside == kLooksInside) {
      if (SettleBlocked(helper, &kicks))
        break;
      continue;
    }
    inside = Waits(state) ? inside + 1 : 0;
    const Duration cpu = CpuTime(helper->tid);
    if (!cpu_at_start.has_value())
      cpu_at_start = cpu;
    if (cpu - *cpu_at_start < kTurn)
      continue;
    ++helper->strikes;
    helper->state = State::kLoose;
    in_time = false;
  }
  waiting_drivers_.fetch_sub(1);
  return in_time;
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
  if (helper->state == State::kReleased && *kicks < kKicks) {
    // It was about to go to sleep when it was kicked, or it waits for its lock.
    ++*kicks;
    helper->kick(helper);
    return false;
  }
  // Where its object was signalled: the signal went to somebody else, or the thread
  // waits for the lock that comes with it.
  helper->looks = 0;
  helper->state = State::kBlocked;
  return true;
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

Helper* HelperThreads::Earliest() {
  Helper* earliest = nullptr;
  for (const auto& helper : helpers_) {
    const bool waits = helper->state == State::kParked ||
                       (helper->state == State::kBlocked && helper->signalled);
    if (!waits || helper->deadline_ns == kNever)
      continue;
    if (earliest == nullptr || helper->deadline_ns < earliest->deadline_ns ||
        (helper->deadline_ns == earliest->deadline_ns &&
         helper->order < earliest->order))
      earliest = helper.get();
  }
  return earliest;
}

void HelperThreads::Release(Helper* helper) {
  helper->clock_ns = std::max(helper->clock_ns.load(), helper->deadline_ns);
  helper->signalled = false;
  helper->expired = true;
  helper->state = State::kReleased;
  helper->kick(helper);
}

// Some state or limit is another one now.
void HelperThreads::Changed() {
  int64_t gate = kNever;
  for (const auto& helper : helpers_) {
    const State state = helper->state;
    if (Runs(state) || state == State::kBlocked ||
        (state == State::kParked && helper->open_slot != protocol::kNoSlot))
      gate = std::numeric_limits<int64_t>::min();
    else if (state == State::kParked)
      gate = std::min(gate, helper->deadline_ns);
  }
  gate_ns_.store(gate, std::memory_order_release);
  changes_.fetch_add(1);
  if (waiting_drivers_.load() != 0)
    FutexWake(&changes_, 1, /*shared=*/false);
}

}  // namespace vrank::host
