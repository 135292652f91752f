#include "virtual_host/turns/thread_scheduler.h"

#include <algorithm>
#include <utility>

#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {

// ---------------------------------------------------------------------------------
// A thread's life
// ---------------------------------------------------------------------------------

HostThread* ThreadScheduler::Announce(TimePoint clock) {
  LockGuard guard(&lock_);
  any_ = true;
  HostThread* made = nullptr;
  for (const auto& thread : threads_)
    if (thread->state == State::kFree)
      made = thread.get();
  if (made == nullptr) {
    threads_.push_back(std::make_unique<HostThread>());
    made = threads_.back().get();
  }
  made->tid = 0;
  made->looks = made->strikes = 0;
  queue_.Add(made, clock.nanoseconds());
  Changed();
  return made;
}

void ThreadScheduler::Begin(HostThread* thread) {
  LockGuard guard(&lock_);
  thread->tid = static_cast<pid_t>(RawSyscall(SYS_gettid));
  thread->passages = &thread_state.passages;
}

HostThread* ThreadScheduler::BeginIssuing(HostThread* thread) {
  if (thread == nullptr) {
    thread = Announce(TimePoint());
    Begin(thread);
  }
  LockGuard guard(&lock_);
  if (!queue_.BeginIssuing(thread))
    return thread;
  char state = 0;
  // The waits of a lone driver are not recorded in the queue, but for one for the GPU
  // (GuestChannel::AskBeside).
  if (issuing_.fetch_add(1) == 1)
    for (const auto& other : threads_)
      if (other->issues && other.get() != thread && queue_.IsInTurn(*other) &&
          WaitsOutside(*other, &state))
        Blocks(other.get());
  Changed();
  return thread;
}

void ThreadScheduler::BecomeHelper(HostThread* thread, TimePoint clock) {
  LockGuard guard(&lock_);
  queue_.StopIssuing(thread, clock.nanoseconds());
  issuing_.fetch_sub(1);
  Changed();
}

void ThreadScheduler::End(HostThread* thread) {
  LockGuard guard(&lock_);
  if (thread->issues)
    issuing_.fetch_sub(1);
  queue_.Remove(thread);
  Changed();
}

void ThreadScheduler::JoinTeam() {
  LockGuard guard(&lock_);
  team_.Join();
}

void ThreadScheduler::ForgetAll() {
  lock_.ResetAfterFork();
  turn_.ResetAfterFork();
  queue_.RemoveAll();
  ticket_.ForgetAfterFork();
  issuing_ = 0;
  team_.ForgetAll();
  waking_ = 0;
  gate_ns_ = kNever;
  watchers_ = 0;
}

// ---------------------------------------------------------------------------------
// Called by the thread itself
// ---------------------------------------------------------------------------------

void ThreadScheduler::Touch(HostThread* thread, TimePoint clock) {
  const State state = thread->state.load(std::memory_order_relaxed);
  if (state == State::kRunning || state == State::kParked || state == State::kReleased)
    return;
  LockGuard guard(&lock_);
  // Within a turn it keeps its clock; after a long wait it has that of the process.
  if (thread->state == State::kQuiet || thread->state == State::kLoose)
    RaiseClock(thread, clock);
  if (thread->state != State::kLoose)
    queue_.LetRun(thread, State::kRunning, Place::kFirst);
  Changed();
}

void ThreadScheduler::Park(HostThread* thread, int64_t deadline_ns, const void* object,
                           HostThread::Kick kick, uint64_t kick_argument,
                           WaitsFor waits_for) {
  LockGuard guard(&lock_);
  thread->kick = kick;
  thread->kick_argument = kick_argument;
  queue_.Park(thread, deadline_ns, object, waits_for);
  if (thread->keeps_turn)
    thread->asked_at = protocol::kTurnOfWait | thread->parked;
  Changed();
}

void ThreadScheduler::GotOut(HostThread* thread) {
  LockGuard guard(&lock_);
  if (queue_.GotOut(thread))
    Changed();
}

// Under one lock: a driver that saw it parked without a question would pass the end.
void ThreadScheduler::ParkAsking(HostThread* thread, uint32_t slot) {
  LockGuard guard(&lock_);
  thread->kick = nullptr;
  queue_.ParkAsking(thread, slot, header_.written.load());
  Changed();
}

void ThreadScheduler::BeginLook(HostThread* thread) {
  LockGuard guard(&lock_);
  thread->seen_writes = thread->writes;
}

void ThreadScheduler::ParkAgain(HostThread* thread) {
  LockGuard guard(&lock_);
  if (queue_.ParkAgain(thread))
    Changed();
}

void ThreadScheduler::BeginAsking(HostThread* thread, uint32_t slot) {
  LockGuard guard(&lock_);
  thread->asked_at = header_.written.load();
  thread->asks = slot;
}

// Other threads may have run meanwhile.
void ThreadScheduler::EndAsking(HostThread* thread) {
  LockGuard guard(&lock_);
  thread->asks = protocol::kNoSlot;
  bool goes_on = false;
  if (thread->issues) {
    thread->open_slot = protocol::kNoSlot;
    WithdrawTurn();
    goes_on = !queue_.Runs(thread->state);
    if (goes_on)
      queue_.GoOnAnswered(thread);
  }
  if (goes_on || watchers_.load() != 0)
    Changed();  // for the threads that watch it
}

ThreadScheduler::Outcome ThreadScheduler::Look(HostThread* thread) {
  LockGuard guard(&lock_);
  if (thread->signalled)
    return Outcome::kSignalled;
  return thread->expired ? Outcome::kExpired : Outcome::kWaits;
}

void ThreadScheduler::Unpark(HostThread* thread, TimePoint clock) {
  LockGuard guard(&lock_);
  thread->kick = nullptr;
  thread->looks = 0;
  const bool awaited = thread->strikes < schedule::kStrikes || thread->issues;
  queue_.Unpark(thread, clock.nanoseconds(), awaited ? State::kRunning : State::kLoose);
  Changed();
}

// ---------------------------------------------------------------------------------
// Wake-ups
// ---------------------------------------------------------------------------------

void ThreadScheduler::Signal(const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  for (const auto& thread : threads_)
    if (thread->object == object && queue_.AwaitsSignal(*thread))
      Woken(thread.get(), clock);
  queue_.SignalDriverWaits(object);
}

void ThreadScheduler::SignalOne(HostThread* thread, const void* object,
                                TimePoint clock) {
  LockGuard guard(&lock_);
  const State state = thread->state;
  const bool waits = queue_.AwaitsSignal(*thread) || state == State::kBlocked ||
                     state == State::kQuiet;
  if (waits && thread->object == object)
    Woken(thread, clock);
}

HostThread* ThreadScheduler::SignalFirst(const void* object, TimePoint clock) {
  LockGuard guard(&lock_);
  auto* const first = static_cast<HostThread*>(queue_.FirstWaiting(object));
  if (first != nullptr)
    Woken(first, clock);
  return first;
}

void ThreadScheduler::Woken(HostThread* thread, TimePoint clock) {
  queue_.Call(thread, clock.nanoseconds());
  if (thread != thread_state.turn && thread_state.helper == nullptr)
    OweStop();
  Changed();
}

// The calling driver ends its turn at the next safe point, and the thread that it has
// woken waits until then: otherwise the two would run concurrently.
void ThreadScheduler::OweStop() {
  thread_state.owes_stop = true;
  if (thread_state.turn != nullptr)
    thread_state.turn->owes_stop = true;
}

// A polling thread may wait for a lock of this library between two slices.
bool ThreadScheduler::IsAwake(const HostThread& thread) {
  char state = 0;
  return thread.polls && thread.state == State::kParked
             ? !WaitsOutside(thread, &state)
             : !Waits(KernelState(thread.tid));
}

// A thread that was observed awake and only checks its limit waits again afterwards, as
// after a signal that served another waiter.
bool ThreadScheduler::SignalWoken(TimePoint clock) {
  LockGuard guard(&lock_);
  bool any = false;
  for (const auto& thread : threads_) {
    const State state = thread->state;
    const bool waits =
        state == State::kParked || state == State::kQuiet || state == State::kBlocked;
    if (!waits || thread->asks != protocol::kNoSlot || thread->tid == 0 ||
        !IsAwake(*thread))
      continue;
    if (state == State::kParked) {
      // RunQueue::Unpark raises its clock.
      queue_.Guess(thread.get(), thread->polls ? Place::kLast : Place::kFirst);
    } else {
      RaiseClock(thread.get(), clock);
      queue_.LetRun(thread.get(), State::kRunning, Place::kFirst);
    }
    any = true;
  }
  if (any)
    Changed();
  return any;
}

void ThreadScheduler::SignalWritten(TimePoint clock) {
  LockGuard guard(&lock_);
  for (const auto& thread : threads_) {
    const State state = thread->state;
    const bool unseen = state == State::kQuiet || state == State::kBlocked;
    const bool polls = thread->polls && queue_.AwaitsSignal(*thread);
    if ((!unseen && !polls) || thread->tid == 0 || !IsAwake(*thread))
      continue;
    if (!polls) {
      Woken(thread.get(), clock);
      continue;
    }
    queue_.GuessWritten(thread.get(), clock.nanoseconds());
    Changed();
  }
}

void ThreadScheduler::KickWaiter(HostThread* thread, const void* object) {
  LockGuard guard(&lock_);
  if (thread->object == object && thread->kick != nullptr)
    thread->kick(thread);
}

// ---------------------------------------------------------------------------------
// Limits: where no thread of the session can run, the emulator ends the earliest one
// ---------------------------------------------------------------------------------

void ThreadScheduler::AddDriverWait(DriverWait* wait) {
  any_ = true;
  LockGuard guard(&lock_);
  queue_.AddDriverWait(wait);
  NoteLimits();
}

void ThreadScheduler::RemoveDriverWait(DriverWait* wait) {
  LockGuard guard(&lock_);
  queue_.RemoveDriverWait(wait);
  NoteLimits();
}

bool ThreadScheduler::Signalled(const DriverWait& wait) {
  LockGuard guard(&lock_);
  return wait.signalled;
}

int64_t ThreadScheduler::NextLimit() {
  LockGuard guard(&lock_);
  const schedule::Thread* const next = queue_.Earliest();
  return next == nullptr ? kNever : next->deadline_ns;
}

void ThreadScheduler::Release(HostThread* thread) {
  queue_.Release(thread);
  thread->kick(thread);
}

void ThreadScheduler::Publish() {
  LockGuard guard(&lock_);
  ticket_.Publish(queue_.EarliestLimit(), queue_.IssuersSleep());
}

// Beside other real ranks the emulator must know at all times what a rank waits for and
// whether it sleeps: sleeps of other ranks must not end past that limit, and decisions
// that need a session without sleepers have to wait. The same holds once another
// process of the rank has slept, since such a sleep ends as soon as all threads rest.
// Otherwise the limit is published only by Publish(), once the threads have rested for
// a while.
void ThreadScheduler::NoteLimits() {
  const bool tells =
      protocol::HasRealPeers(header_.settings) || header_.others_time_uses.load() != 0;
  if (!tells && !ticket_.is_out())
    return;
  const int64_t earliest = queue_.EarliestLimit();
  if (earliest == kNever)
    ticket_.Withdraw();
  else if (tells)
    ticket_.Publish(earliest, queue_.IssuersSleep());
}

std::optional<TimePoint> ThreadScheduler::TakeGrant() {
  LockGuard guard(&lock_);
  const std::optional<int64_t> granted = ticket_.Take(queue_.EarliestLimit());
  if (!granted.has_value())
    return std::nullopt;
  return TimePoint::FromNanoseconds(*granted);
}

void ThreadScheduler::Expire(TimePoint limit) {
  LockGuard guard(&lock_);
  auto* const earliest = static_cast<HostThread*>(queue_.Earliest());
  if (earliest != nullptr && earliest->deadline_ns <= limit.nanoseconds())
    Release(earliest);
  Changed();
}

// ---------------------------------------------------------------------------------
// After each change
// ---------------------------------------------------------------------------------

Duration ThreadScheduler::CpuUsed() {
  LockGuard guard(&lock_);
  Duration used;
  for (const auto& thread : threads_) {
    const State state = thread->state;
    if (thread->tid != 0 && !thread->issues && state != State::kFree &&
        state != State::kLoose)
      used += CpuTime(thread->tid);
  }
  return used;
}

// A state or a limit has changed.
void ThreadScheduler::Changed() {
  gate_ns_.store(queue_.Gate(), std::memory_order_release);
  WithdrawTurn();
  NoteLimits();
  WakeWatchers();
}

// Withdraws the request of MayPass() once its thread no longer keeps the turn.
void ThreadScheduler::WithdrawTurn() {
  uint64_t wanted = header_.turn_wanted.load();
  if (wanted == 0)
    return;
  for (const auto& thread : threads_)
    if (thread->asked_at == wanted && queue_.IsInTurn(*thread) &&
        (thread->keeps_turn || thread->asks != protocol::kNoSlot))
      return;
  header_.turn_wanted.compare_exchange_strong(wanted, 0);
}

void ThreadScheduler::WakeWatchers() {
  header_.thread_changes.fetch_add(1);
  if (watchers_.load() != 0)
    FutexWake(&header_.thread_changes, INT_MAX, /*shared=*/true);
}

}  // namespace vrank::host
