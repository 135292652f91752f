#include "schedule/run_queue.h"

#include <algorithm>
#include <utility>

namespace vrank::schedule {

// ---------------------------------------------------------------------------------
// Threads
// ---------------------------------------------------------------------------------

void RunQueue::Add(Thread* thread, int64_t clock_ns) {
  if (std::find(threads_.begin(), threads_.end(), thread) == threads_.end())
    threads_.push_back(thread);
  SetWait(thread, kNever, nullptr);
  thread->state = State::kFree;
  thread->asks = kNoQuestion;
  thread->order = next_order_++;
  thread->issues = thread->waited = false;
  thread->clock_ns = clock_ns;
  LetRun(thread, State::kRunning, Place::kFirst);
}

bool RunQueue::BeginIssuing(Thread* thread) {
  thread->waited = true;
  if (std::exchange(thread->issues, true))
    return false;
  thread->joins = true;
  LetRun(thread, State::kRunning, Place::kFirst);
  return true;
}

void RunQueue::StopIssuing(Thread* thread, int64_t clock_ns) {
  thread->issues = thread->joins = thread->owes_stop = false;
  thread->clock_ns = clock_ns;
  LetRun(thread, State::kRunning, Place::kFirst);
}

void RunQueue::Remove(Thread* thread) {
  thread->issues = false;
  thread->state = State::kFree;
}

void RunQueue::RemoveAll() {
  for (Thread* const thread : threads_)
    Remove(thread);
  driver_waits_.clear();
}

// ---------------------------------------------------------------------------------
// Called by the thread itself
// ---------------------------------------------------------------------------------

void RunQueue::SetWait(Thread* thread, int64_t deadline_ns, const void* object) {
  thread->parked = waits_++;
  thread->deadline_ns = deadline_ns;
  thread->object = object;
  thread->open_slot = kNoQuestion;
  thread->sleeps = thread->polls = thread->keeps_turn = thread->kept_turn = false;
  thread->expired = thread->signalled = thread->guessed = false;
  thread->written_ns = kNever;
  thread->joins = thread->owes_stop = false;
}

void RunQueue::Park(Thread* thread, int64_t deadline_ns, const void* object,
                    WaitsFor waits_for) {
  SetWait(thread, deadline_ns, object);
  thread->sleeps = waits_for == WaitsFor::kLimitOnly;
  thread->polls =
      waits_for == WaitsFor::kDescriptors || waits_for == WaitsFor::kNetwork;
  thread->waited |= !thread->sleeps;
  // Data of another rank arrives in real time, so no other driver may run meanwhile.
  thread->keeps_turn = waits_for == WaitsFor::kNetwork && thread->issues;
  thread->state = State::kParked;
}

void RunQueue::ParkAsking(Thread* thread, uint32_t question, uint64_t asked_at) {
  SetWait(thread, kNever, nullptr);
  thread->asked_at = asked_at;
  thread->open_slot = question;
  thread->state = State::kParked;
}

bool RunQueue::ParkAgain(Thread* thread) {
  if (!thread->signalled || (thread->polls && thread->writes != thread->seen_writes))
    return false;
  thread->signalled = false;
  thread->written_ns = kNever;
  thread->state = State::kParked;
  return true;
}

bool RunQueue::GotOut(Thread* thread) {
  if (thread->state != State::kParked)
    return false;
  Guess(thread, Place::kLast);
  return true;
}

void RunQueue::Unpark(Thread* thread, int64_t clock_ns, State state) {
  // Neither its limit nor a known signal ended the wait: the cause is as late as the
  // process clock.
  if (!thread->expired && (!thread->signalled || thread->guessed))
    thread->clock_ns =
        std::max(thread->clock_ns.load(),
                 thread->written_ns != kNever ? thread->written_ns : clock_ns);
  thread->object = nullptr;
  thread->sleeps = thread->polls = false;
  thread->deadline_ns = kNever;
  thread->signalled = false;
  thread->open_slot = kNoQuestion;
  LetRun(thread, state, Place::kFirst);
}

void RunQueue::Stop(Thread* thread, bool over) {
  thread->signalled = thread->owes_stop = false;
  if (over || !Runs(thread->state))
    thread->turn = {++last_place_};
  if (over)
    thread->joins = false;
  thread->state = State::kRunning;
}

void RunQueue::GoOnAnswered(Thread* thread) {
  LetRun(thread, State::kRunning, Place::kFirst);
  if (!thread->issues)
    return;
  for (const Thread* const other : threads_)
    if (IsInTurn(*other) && other->turn.question != 0)
      thread->turn.place = other->turn.place;
  thread->turn.question = thread->asked_at;
}

// Two drivers alternate if one waits for the other in between. A wait for the GPU is no
// such hand-over.
bool RunQueue::IssuesBeside(Thread* self, const Thread* before) {
  const bool waited = std::exchange(self->waited, false);
  return before != nullptr && before != self && before->issues &&
         (!waited || before->asks != kNoQuestion);
}

// ---------------------------------------------------------------------------------
// Observations
// ---------------------------------------------------------------------------------

// After a signal it may still sleep: the signal served another waiter, or the thread
// acquires the mutex that belongs to its condition.
void RunQueue::Block(Thread* thread) {
  if (thread->keeps_turn) {
    thread->keeps_turn = false;
  } else if (thread->asks != kNoQuestion) {
    thread->open_slot = thread->asks;
    thread->state = State::kParked;
  } else if (thread->signalled && thread->guessed) {
    thread->signalled = false;  // it has only checked its limit
    thread->written_ns = kNever;
    thread->state = State::kParked;
  } else {
    thread->waited = true;
    thread->state = State::kBlocked;
  }
}

void RunQueue::StopLooking(Thread* thread) {
  const bool was_for_another = std::exchange(thread->signalled, false);
  thread->state = was_for_another ? State::kParked : State::kQuiet;
}

// ---------------------------------------------------------------------------------
// Wake-ups
// ---------------------------------------------------------------------------------

// A thread that is in turn already keeps its place.
void RunQueue::LetRun(Thread* thread, State state, Place place) {
  if (!IsInTurn(*thread) && Runs(state))
    thread->turn = {place == Place::kFirst ? --first_place_ : ++last_place_};
  thread->kept_turn |= std::exchange(thread->keeps_turn, false);
  thread->state = state;
}

void RunQueue::Call(Thread* thread, int64_t clock_ns) {
  if (AwaitsSignal(*thread))
    thread->state = State::kParked;  // out of turn, so that it gets a new place
  thread->signalled = true;
  thread->guessed = false;
  thread->clock_ns = std::max(thread->clock_ns.load(), clock_ns);
  LetRun(thread, State::kRunning, Place::kLast);
}

Thread* RunQueue::FirstWaiting(const void* object) const {
  Thread* first = nullptr;
  for (Thread* const thread : threads_)
    if (thread->object == object && AwaitsSignal(*thread) &&
        (first == nullptr || thread->parked < first->parked))
      first = thread;
  return first;
}

void RunQueue::Guess(Thread* thread, Place place) {
  thread->signalled = thread->guessed = true;
  LetRun(thread, State::kRunning, place);
}

void RunQueue::GuessWritten(Thread* thread, int64_t clock_ns) {
  thread->written_ns = clock_ns;
  ++thread->writes;
  Guess(thread, Place::kLast);
}

void RunQueue::Release(Thread* thread) {
  thread->clock_ns = std::max(thread->clock_ns.load(), thread->deadline_ns);
  thread->signalled = false;
  thread->expired = true;
  LetRun(thread, State::kReleased, Place::kFirst);
}

// ---------------------------------------------------------------------------------
// Order
// ---------------------------------------------------------------------------------

bool RunQueue::AnyoneSignalled(const void* object) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const Thread* other) {
    return other->object == object && other->signalled && !other->guessed;
  });
}

bool RunQueue::GoesBefore(const Thread& thread, const Thread* self) {
  if (self == nullptr || (self->takes_turns() && !thread.takes_turns()))
    return true;
  if (thread.owes_stop && !self->takes_turns())
    return true;
  return self->takes_turns() == thread.takes_turns() && thread.turn < self->turn;
}

Thread* RunQueue::FirstBefore(const Thread* self) const {
  Thread* first = nullptr;
  for (Thread* const thread : threads_)
    if (thread != self && IsInTurn(*thread) && GoesBefore(*thread, self) &&
        (first == nullptr || std::pair(thread->takes_turns(), thread->turn) <
                                 std::pair(first->takes_turns(), first->turn)))
      first = thread;
  return first;
}

bool RunQueue::MaySleepThrough(const Thread& self, int64_t deadline_ns) const {
  const bool alone = std::none_of(
      threads_.begin(), threads_.end(),
      [&](const Thread* other) { return other->issues && other != &self; });
  if (const Thread* const next = Earliest();
      !alone && next != nullptr && next->deadline_ns < deadline_ns)
    return false;
  return std::none_of(threads_.begin(), threads_.end(), [&](const Thread* other) {
    if (!other->issues || other == &self)
      return false;
    const bool earlier = std::pair(other->deadline_ns, other->order) <
                         std::pair(deadline_ns, self.order);
    return IsInTurn(*other) || (AwaitsLimit(*other) && earlier);
  });
}

bool RunQueue::AnotherDriverHasLimit(const Thread& self) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const Thread* other) {
    return other->issues && other != &self && other->deadline_ns != kNever &&
           AwaitsLimit(*other);
  });
}

bool RunQueue::AnotherMayRun(const Thread& self) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const Thread* other) {
    return other != &self && (Runs(other->state) || other->state == State::kBlocked ||
                              AwaitsLimit(*other));
  });
}

// ---------------------------------------------------------------------------------
// Limits
// ---------------------------------------------------------------------------------

// A signalled thread that still sleeps counts, too: the signal served another waiter,
// or the thread was observed awake while it checked its limit.
bool RunQueue::AwaitsLimit(const Thread& thread) {
  const bool waits = thread.state == State::kParked ||
                     (thread.state == State::kBlocked && thread.signalled);
  return waits && thread.deadline_ns != kNever;
}

void RunQueue::SignalDriverWaits(const void* object) {
  for (DriverWait* const wait : driver_waits_)
    wait->signalled |= wait->object == object;
}

Thread* RunQueue::Earliest() const {
  Thread* earliest = nullptr;
  for (Thread* const thread : threads_)
    if (AwaitsLimit(*thread) &&
        (earliest == nullptr || std::pair(thread->deadline_ns, thread->order) <
                                    std::pair(earliest->deadline_ns, earliest->order)))
      earliest = thread;
  return earliest;
}

int64_t RunQueue::EarliestLimit() const {
  const Thread* const thread = Earliest();
  int64_t earliest = thread == nullptr ? kNever : thread->deadline_ns;
  for (const DriverWait* const wait : driver_waits_)
    earliest = std::min(earliest, wait->deadline_ns);
  return earliest;
}

bool RunQueue::IssuersSleep() const {
  bool any = std::any_of(driver_waits_.begin(), driver_waits_.end(),
                         [](const DriverWait* wait) { return wait->sleeps; });
  if (any)
    return true;
  for (const Thread* const thread : threads_) {
    if (thread->issues && IsInTurn(*thread))
      return false;
    any |= thread->issues && thread->sleeps && AwaitsLimit(*thread);
  }
  return any;
}

// The first driver in turn is the caller.
int64_t RunQueue::Gate() const {
  int64_t gate = kNever;
  int issuers = 0;
  for (const Thread* const thread : threads_) {
    const State state = thread->state;
    const bool runs = IsInTurn(*thread) && (!thread->issues || ++issuers > 1);
    if (runs || state == State::kBlocked ||
        (state == State::kParked && thread->open_slot != kNoQuestion))
      return std::numeric_limits<int64_t>::min();
    if (state == State::kParked)
      gate = std::min(gate, thread->deadline_ns);
  }
  return gate;
}

}  // namespace vrank::schedule
