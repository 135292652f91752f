// The run queue of one process: the state of its threads, and which of them runs next.
//
// A *driver* issues GPU work and advances the process clock; all other threads
// (watchdogs, loggers) are *helpers*, each with a clock of its own. One thread runs at
// a time. Each rule is one function:
//
//   GoesBefore      helpers before drivers, except after a driver that has signalled a
//                   helper and has not stopped yet; then by place
//   LetRun          a thread that another thread has woken gets the last place; one
//   that
//                   continues by itself (a timeout, an answer) gets the first
//   Earliest        timeouts expire in order of time, then of thread creation
//   FirstWaiting    waiters of one object are woken first come, first served
//   Gate            the earliest time at which another thread may have to run
//
// The class makes no system call, reads no clock and takes no lock.
// virtual_host/turns/thread_scheduler.h wakes threads, blocks them and queries the
// kernel. Times are in ns of the virtual clock. tests/schedule/run_queue_test.cc
// explores interleavings of small programs.
//
// Thread rule: one lock of the caller's guards a queue and its threads. Atomic fields
// may be read without it.

#ifndef VRANK_SCHEDULE_RUN_QUEUE_H_
#define VRANK_SCHEDULE_RUN_QUEUE_H_

#include <atomic>
#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

namespace vrank::schedule {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
inline constexpr uint32_t kNoQuestion = std::numeric_limits<uint32_t>::max();

struct Thread {
  //   kRunning   runs; other threads wait for it
  //   kParked    waits, and has said for what: a timeout, an object, an answer
  //   kReleased  its timeout has expired; it has been woken and has not returned yet
  //   kBlocked   waits in a way that only the kernel reports (a lock, a file); the
  //              others continue
  //   kQuiet     kBlocked for so long that it is no longer polled
  //   kLoose     has computed for too long; no thread waits for it
  enum class State : uint32_t {
    kFree,
    kRunning,
    kParked,
    kReleased,
    kBlocked,
    kQuiet,
    kLoose
  };
  std::atomic<State> state{State::kFree};
  std::atomic<int64_t> clock_ns{0};
  // It has signalled another thread, which runs once this one has stopped.
  std::atomic<bool> owes_stop{false};
  // The question whose answer it awaits without being parked, and the question's
  // position in the sequence of questions and waits of this process.
  std::atomic<uint32_t> asks{kNoQuestion};
  uint64_t asked_at = 0;

  uint64_t order = 0;  // of creation
  // Threads run in order of `place`. Threads that were passed while they awaited an
  // answer share one place once they are answered, in order of their questions.
  struct Turn {
    int64_t place = 0;
    uint64_t question = 0;  // 0: not answered in this turn
    auto operator<=>(const Turn&) const = default;
  };
  Turn turn;
  bool issues = false;  // a driver
  bool joins = false;   // ... that began this turn as a helper, and ends it as one
  bool takes_turns() const { return issues && !joins; }
  // It has waited for another thread since it last issued work.
  bool waited = false;

  // --- The current wait, and how it ended
  uint64_t parked = 0;               // position among all waits of the process
  int64_t deadline_ns = kNever;      // the limit
  const void* object = nullptr;      // the object waited for
  uint32_t open_slot = kNoQuestion;  // the question waited for
  bool sleeps = false;               // only the limit can end it
  bool polls = false;  // waits for descriptors: a writer does not name its waiters
  bool keeps_turn =
      false;               // another real rank may end it; other drivers wait meanwhile
  bool kept_turn = false;  // ... and kept it until it continued
  bool expired = false;    // the limit was reached
  bool signalled = false;  // the object was signalled, perhaps for another waiter
  bool guessed = false;    // the thread was only observed awake
  // Clock of the thread whose write preceded that observation; kNever: none.
  int64_t written_ns = kNever;
  // Number of such writes, and the number at the thread's latest check.
  uint32_t writes = 0, seen_writes = 0;
};

// A wait of the only driver of a process, which needs no place in the queue.
struct DriverWait {
  int64_t deadline_ns;
  const void* object;
  bool sleeps = false;  // only the limit can end it
  bool signalled = false;
};

enum class WaitsFor {
  kObject,
  kDescriptors,
  kNetwork,  // descriptors through which another rank may send data
  kLimitOnly
};

class RunQueue {
 public:
  using State = Thread::State;

  // --- Threads
  // `thread` is about to be created, and runs. A removed record may be added again.
  void Add(Thread* thread, int64_t clock_ns);
  // The thread becomes a driver. False: it was one.
  bool BeginIssuing(Thread* thread);
  // The thread becomes a helper.
  void StopIssuing(Thread* thread, int64_t clock_ns);
  void Remove(Thread* thread);
  void RemoveAll();

  // --- Called by the thread itself
  void Park(Thread* thread, int64_t deadline_ns, const void* object,
            WaitsFor waits_for);
  void ParkAsking(Thread* thread, uint32_t question, uint64_t asked_at);
  // Waits again after a wake-up in vain. False: nothing had woken it, or it has to
  // check its descriptors once more.
  bool ParkAgain(Thread* thread);
  // Its wait for descriptors has returned. False: a signal had ended that wait.
  bool GotOut(Thread* thread);
  // The wait is over. `clock_ns`: the process clock, for a wake-up by no known thread.
  // `state`: kRunning or kLoose.
  void Unpark(Thread* thread, int64_t clock_ns, State state);
  // A safe point. `over`: the turn ends, so that the other drivers go first.
  void Stop(Thread* thread, bool over);
  // Its question is answered, and other threads have run meanwhile.
  void GoOnAnswered(Thread* thread);
  // Whether the driver `self`, which issues now, and `before`, the last one that did,
  // issue concurrently.
  static bool IssuesBeside(Thread* self, const Thread* before);

  // --- Observations
  // The kernel reports that the running (or turn-keeping) thread sleeps.
  static void Block(Thread* thread);
  // A kBlocked thread has been polled in vain for long.
  static void StopLooking(Thread* thread);

  // --- Wake-ups
  enum class Place { kFirst, kLast };
  void LetRun(Thread* thread, State state, Place place);
  // A thread whose clock shows `clock_ns` has signalled it.
  void Call(Thread* thread, int64_t clock_ns);
  // The longest waiter of `object` that has not been signalled; nullptr: none.
  Thread* FirstWaiting(const void* object) const;
  // It was observed awake without a signal. It may only check its limit.
  void Guess(Thread* thread, Place place);
  // ... after a write by a thread whose clock shows `clock_ns`.
  void GuessWritten(Thread* thread, int64_t clock_ns);
  // Its limit has been reached.
  void Release(Thread* thread);

  // --- Order
  static bool Runs(State state) {
    return state == State::kRunning || state == State::kReleased;
  }
  // The other threads wait for it.
  static bool IsInTurn(const Thread& thread) {
    return Runs(thread.state) || thread.keeps_turn;
  }
  // A signal can still reach it.
  static bool AwaitsSignal(const Thread& thread) {
    return thread.state == State::kParked ||
           (Runs(thread.state) && thread.signalled && thread.guessed);
  }
  bool AnyoneSignalled(const void* object) const;
  // `thread` runs before `self`. nullptr: a driver without a place, which goes last.
  static bool GoesBefore(const Thread& thread, const Thread* self);
  // The first thread in turn that runs before `self`; nullptr: `self` may run.
  Thread* FirstBefore(const Thread* self) const;
  // Whether the driver `self` may advance the clock to `deadline_ns` by sleeping: no
  // other driver is in turn, has an earlier limit, or could be woken before by a helper
  // that has one.
  bool MaySleepThrough(const Thread& self, int64_t deadline_ns) const;

  // Another driver than `self` waits until a time at most.
  bool AnotherDriverHasLimit(const Thread& self) const;
  // Another thread than `self` runs, waits until a time at most, or waits unseen.
  bool AnotherMayRun(const Thread& self) const;

  // --- Limits
  void AddDriverWait(DriverWait* wait) { driver_waits_.push_back(wait); }
  void RemoveDriverWait(DriverWait* wait) { std::erase(driver_waits_, wait); }
  void SignalDriverWaits(const void* object);
  // The thread with the earliest limit; nullptr: none.
  Thread* Earliest() const;
  // The earliest limit of threads and DriverWaits; kNever: none.
  int64_t EarliestLimit() const;
  // No driver can run, and only a limit ends the wait of one of them.
  bool IssuersSleep() const;
  // Before this time, a lone driver need not stop.
  int64_t Gate() const;

 private:
  static bool AwaitsLimit(const Thread& thread);
  void SetWait(Thread* thread, int64_t deadline_ns, const void* object);

  std::vector<Thread*> threads_;  // in the order in which the records were first added
  std::vector<DriverWait*> driver_waits_;
  uint64_t next_order_ = 0;
  uint64_t waits_ = 0;  // so far
  int64_t first_place_ = 0, last_place_ = 0;
};

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_RUN_QUEUE_H_
