#include "virtual_host/turns/helper_threads.h"

#include <algorithm>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

using State = Helper::State;

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
  made->issues = made->joins = made->waited = made->sleeps = made->keeps_turn = false;
  made->owes_stop = false;
  LetRun(made, State::kRunning, Place::kFirst);
  Changed();
  return made;
}

void HelperThreads::Begin(Helper* helper) {
  LockGuard guard(&lock_);
  helper->tid = static_cast<pid_t>(RawSyscall(SYS_gettid));
  helper->passages = &thread_state.passages;
}

Helper* HelperThreads::BeginIssuing(Helper* helper) {
  if (helper == nullptr) {
    helper = Announce(TimePoint());
    Begin(helper);
  }
  LockGuard guard(&lock_);
  helper->waited = true;
  if (std::exchange(helper->issues, true))
    return helper;
  helper->joins = true;
  LetRun(helper, State::kRunning, Place::kFirst);
  char state = 0;
  // Where one alone issued, its waits were not kept here.
  if (issuing_.fetch_add(1) == 1)
    for (const auto& other : helpers_)
      if (other->issues && other.get() != helper && WaitsOutside(*other, &state))
        Blocks(other.get());
  Changed();
  return helper;
}

void HelperThreads::BecomeHelper(Helper* helper, TimePoint clock) {
  LockGuard guard(&lock_);
  helper->issues = helper->joins = helper->owes_stop = false;
  helper->clock_ns = clock.nanoseconds();
  issuing_.fetch_sub(1);
  LetRun(helper, State::kRunning, Place::kFirst);
  Changed();
}

void HelperThreads::End(Helper* helper) {
  LockGuard guard(&lock_);
  if (std::exchange(helper->issues, false))
    issuing_.fetch_sub(1);
  helper->state = State::kFree;
  Changed();
}

void HelperThreads::JoinTeam() {
  LockGuard guard(&lock_);
  team_.push_back(static_cast<pid_t>(RawSyscall(SYS_gettid)));
  team_starts_.fetch_sub(1);
}

void HelperThreads::ForgetAll() {
  lock_.ResetAfterFork();
  turn_.ResetAfterFork();
  for (const auto& helper : helpers_) {
    helper->state = State::kFree;
    helper->issues = false;
  }
  issuing_ = 0;
  driver_waits_.clear();
  team_.clear();
  team_starts_ = 0;
  waking_ = 0;
  gate_ns_ = kNever;
  watchers_ = 0;
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
    LetRun(helper, State::kRunning, Place::kFirst);
  Changed();
}

void HelperThreads::Park(Helper* helper, int64_t deadline_ns, const void* object,
                         Helper::Kick kick, uint64_t kick_argument,
                         WaitsFor waits_for) {
  LockGuard guard(&lock_);
  ParkLocked(helper, deadline_ns, object, kick, kick_argument);
  helper->sleeps = waits_for == WaitsFor::kLimitOnly;
  helper->polls =
      waits_for == WaitsFor::kDescriptors || waits_for == WaitsFor::kNetwork;
  helper->waited |= !helper->sleeps;
  // What another rank sends comes when it comes in real time.
  helper->keeps_turn = waits_for == WaitsFor::kNetwork && helper->issues;
  if (helper->keeps_turn)
    helper->asked_at = protocol::kTurnOfWait | waits_;
  Changed();
}

void HelperThreads::GotOut(Helper* helper) {
  LockGuard guard(&lock_);
  if (helper->state != State::kParked)
    return;
  helper->signalled = helper->guessed = true;
  LetRun(helper, State::kRunning, Place::kLast);
  Changed();
}

void HelperThreads::ParkLocked(Helper* helper, int64_t deadline_ns, const void* object,
                               Helper::Kick kick, uint64_t kick_argument) {
  helper->deadline_ns = deadline_ns;
  helper->object = object;
  helper->kick = kick;
  helper->kick_argument = kick_argument;
  helper->signalled = helper->expired = helper->joins = helper->owes_stop = false;
  helper->written_ns = kNever;
  helper->keeps_turn = helper->kept_turn = false;
  helper->parked = waits_++;
  helper->state = State::kParked;
}

// At once: a driver that saw it parked without a question would pass the end.
void HelperThreads::ParkAsking(Helper* helper, uint32_t slot) {
  LockGuard guard(&lock_);
  ParkLocked(helper, kNever, nullptr, nullptr, 0);
  helper->asked_at = header_.written.load();
  helper->open_slot = slot;
  Changed();
}

void HelperThreads::BeginLook(Helper* helper) {
  LockGuard guard(&lock_);
  helper->seen_writes = helper->writes;
}

void HelperThreads::ParkAgain(Helper* helper) {
  LockGuard guard(&lock_);
  if (!helper->signalled || (helper->polls && helper->writes != helper->seen_writes))
    return;
  helper->signalled = false;
  helper->written_ns = kNever;
  helper->state = State::kParked;
  Changed();
}

void HelperThreads::BeginAsking(Helper* helper, uint32_t slot) {
  LockGuard guard(&lock_);
  helper->asked_at = header_.written.load();
  helper->asks = slot;
}

// Meanwhile others may have gone on without it.
void HelperThreads::EndAsking(Helper* helper) {
  LockGuard guard(&lock_);
  helper->asks = protocol::kNoSlot;
  bool goes_on = false;
  if (helper->issues) {
    helper->open_slot = protocol::kNoSlot;
    WantNoTurn(*helper);
    goes_on = !Runs(helper->state);
    if (goes_on)
      GoesOnAnswered(helper);
  }
  if (goes_on || watchers_.load() != 0)
    Changed();  // whoever watches it counts as one that runs from now on
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
  if (!helper->expired && (!helper->signalled || helper->guessed))
    helper->clock_ns = std::max(helper->clock_ns.load(), helper->written_ns != kNever
                                                             ? helper->written_ns
                                                             : clock.nanoseconds());
  helper->object = nullptr;
  helper->sleeps = helper->polls = false;
  helper->kick = nullptr;
  helper->deadline_ns = kNever;
  helper->signalled = false;
  helper->open_slot = protocol::kNoSlot;
  helper->looks = 0;
  LetRun(helper,
         helper->strikes < schedule::kThreadStrikes || helper->issues ? State::kRunning
                                                                      : State::kLoose,
         Place::kFirst);
  Changed();
}

// ---------------------------------------------------------------------------------
// What changes for all
// ---------------------------------------------------------------------------------

void HelperThreads::GoesOnAnswered(Helper* helper) {
  LetRun(helper, State::kRunning, Place::kFirst);
  if (!helper->issues)
    return;
  for (const auto& other : helpers_)
    if (IsInTurn(*other) && other->turn.question != 0)
      helper->turn.place = other->turn.place;
  helper->turn.question = helper->asked_at;
}

// Whoever runs already, and asks nobody, comes first: the others wait for it.
void HelperThreads::LetRun(Helper* helper, State state, Place place) {
  if (!IsInTurn(*helper) && Runs(state))
    helper->turn = {place == Place::kFirst ? --first_turn_ : ++last_turn_};
  if (std::exchange(helper->keeps_turn, false)) {
    helper->kept_turn = true;
    WantNoTurn(*helper);
  }
  helper->state = state;
}

Duration HelperThreads::CpuUsed() {
  LockGuard guard(&lock_);
  Duration used;
  for (const auto& helper : helpers_) {
    const State state = helper->state;
    if (helper->tid != 0 && !helper->issues && state != State::kFree &&
        state != State::kLoose)
      used += CpuTime(helper->tid);
  }
  return used;
}

// Some state or limit is another one now. The one thread that issues work is who asks.
void HelperThreads::Changed() {
  int64_t gate = kNever;
  int turns = 0;
  for (const auto& helper : helpers_) {
    const State state = helper->state;
    const bool runs = IsInTurn(*helper) && (!helper->issues || ++turns > 1);
    if (runs || state == State::kBlocked ||
        (state == State::kParked && helper->open_slot != protocol::kNoSlot))
      gate = std::numeric_limits<int64_t>::min();
    else if (state == State::kParked)
      gate = std::min(gate, helper->deadline_ns);
  }
  gate_ns_.store(gate, std::memory_order_release);
  NoteLimits();
  WakeWatchers();
}

void HelperThreads::WakeWatchers() {
  header_.thread_changes.fetch_add(1);
  if (watchers_.load() != 0)
    FutexWake(&header_.thread_changes, INT_MAX, /*shared=*/true);
}

}  // namespace vrank::host
