// Schedules the threads of this process in virtual time, which stands still while one
// of them runs: what a thread observes, and when, is then a function of the program.
//
// schedule/run_queue.h has the rules; this class applies them. Threads call in before
// and after each wait, block until their turn comes, wake other threads, and check
// whether others wait. A driver (a thread that issues work) stops at its next safe
// point once the process clock has reached the earliest limit of a helper (any other
// thread); helpers then run one after the other until each waits again. See
// docs/decisions/0005-helper-threads.md.
//
// The kernel reports whether a thread waits (kernel_thread.h). That covers every lock
// and every file, and a woken thread counts as running before it has a core. A wait for
// a lock of this library does not count, since the observing thread may hold it. Nor
// does a sleep that another thread is about to end (WakeScope).
//
// Thread rule: every method may be called from any thread; none may be called with the
// channel's lock held.

#ifndef VRANK_VIRTUAL_HOST_TURNS_THREAD_SCHEDULER_H_
#define VRANK_VIRTUAL_HOST_TURNS_THREAD_SCHEDULER_H_

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/guest/protocol.h"
#include "base/guest/units.h"
#include "schedule/policy.h"
#include "schedule/run_queue.h"
#include "virtual_host/turns/answers.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/kernel_thread.h"
#include "virtual_host/turns/limit_ticket.h"
#include "virtual_host/turns/thread_team.h"

namespace vrank::host {

using schedule::kNever;
static_assert(schedule::kNoQuestion == protocol::kNoSlot);

struct HostThread : schedule::Thread {
  // Gets the thread out of its wait; it may be called in vain, and more than once.
  using Kick = void (*)(HostThread* thread);

  std::atomic<uint32_t> word{0};  // for waits of our own making: bumped by a kick
  // Under the table's lock.
  pid_t tid = 0;                 // 0: announced, and not running yet
  uint32_t* passages = nullptr;  // ThreadState::passages of that thread
  Kick kick = nullptr;
  uint64_t kick_argument = 0;
  int looks = 0;                   // while kBlocked
  int strikes = 0;                 // times that it became kLoose
  std::atomic<bool> stops{false};  // StopScope
};

class ThreadScheduler {
 public:
  ThreadScheduler(protocol::Segment* segment, Answers* answers)
      : header_(segment->header), answers_(answers), ticket_(&segment->header) {}

  // --- A thread's life
  // The thread is about to be created, by one whose clock shows `clock`.
  HostThread* Announce(TimePoint clock);
  // Called on the thread itself.
  void Begin(HostThread* thread);
  // `self` has created it and lets it run first, until it waits or ends its turn; for a
  // moment at most, since it may compute or spin until its creator continues: false.
  bool AwaitStart(HostThread* thread, const HostThread* self);
  // It ended, or could not be created.
  void End(HostThread* thread);
  // A thread that computes for others is about to be created; could not be; begins.
  void AnnounceTeam() { team_.Announce(); }
  void WithdrawTeam() { team_.Withdraw(); }
  void JoinTeam();
  // The calling thread issues work from now on, or is a main thread that drives the
  // clock until one does. `helper`: as what it was known so far, or nullptr.
  HostThread* BeginIssuing(HostThread* thread);
  // Another thread issues work, and this one has issued none. `clock`: of the process.
  void BecomeHelper(HostThread* thread, TimePoint clock);
  // In the child after fork.
  void ForgetAll();

  // --- Called by helpers
  // A wait that only the kernel reported is over. `clock`: of the process.
  void Touch(HostThread* thread, TimePoint clock);
  // It waits for `object`, until `deadline_ns` at most.
  using WaitsFor = schedule::WaitsFor;
  void Park(HostThread* thread, int64_t deadline_ns, const void* object,
            HostThread::Kick kick, uint64_t kick_argument = 0,
            WaitsFor waits_for = WaitsFor::kObject);
  // It waits for the end of GPU work, which the emulator reports in `slot`.
  void ParkAsking(HostThread* thread, uint32_t slot);
  // It awaits an answer of the emulator without being parked: a query that takes no
  // time, or a driver's question, which stops the rank.
  void BeginAsking(HostThread* thread, uint32_t slot);
  void EndAsking(HostThread* thread);
  // It has been woken, and blocks until all threads before it wait. Returns how many it
  // has left behind.
  int AwaitTurn(HostThread* thread);
  // Its wait for descriptors has returned.
  void GotOut(HostThread* thread);
  // It waits again after a wake-up in vain, unless a thread has written to a descriptor
  // since BeginLook().
  void ParkAgain(HostThread* thread);
  void BeginLook(HostThread* thread);
  enum class Outcome { kWaits, kExpired, kSignalled };
  Outcome Look(HostThread* thread);
  // Calls take() if it was signalled or no other waiter of its object was, under the
  // lock. `called`: its turn has come after a signal. kNotYet: it has been signalled
  // since, and has to await its turn.
  enum class Took { kNo, kYes, kNotYet };
  template <typename Function>
  Took Take(const HostThread& thread, bool called, Function take) {
    LockGuard guard(&lock_);
    if (thread.signalled && !called)
      return Took::kNotYet;
    const bool its_turn =
        (called && !thread.guessed) || !queue_.AnyoneSignalled(thread.object);
    return its_turn && take() ? Took::kYes : Took::kNo;
  }
  // Before it waits for `object`: calls take() unless another waiter has been
  // signalled. A thread that succeeds has never counted as waiting.
  template <typename Function>
  bool TakeAtOnce(HostThread* thread, const void* object, Function take) {
    LockGuard guard(&lock_);
    thread->waited = true;
    return !queue_.AnyoneSignalled(object) && take();
  }
  // It continues after an action of another thread at that time.
  static void RaiseClock(HostThread* thread, TimePoint clock) {
    thread->clock_ns = std::max(thread->clock_ns.load(), clock.nanoseconds());
  }
  // Its wait is over. `clock`: of the process, for a wake-up by no known thread.
  void Unpark(HostThread* thread, TimePoint clock);

  // --- Called by anybody
  // While one exists, the calling thread is waking others: a sleeping thread does not
  // count as waiting.
  class WakeScope {
   public:
    explicit WakeScope(ThreadScheduler* scheduler) : waking_(scheduler->waking_) {
      waking_.fetch_add(1);
    }
    ~WakeScope() { waking_.fetch_sub(1); }
    WakeScope(const WakeScope&) = delete;
    WakeScope& operator=(const WakeScope&) = delete;

   private:
    std::atomic<int>& waking_;
  };
  // While one exists, `self` (nullptr is allowed) has stopped for other threads or
  // resolves a name: threads that wait for it do not poll it.
  class StopScope {
   public:
    StopScope(ThreadScheduler* scheduler, HostThread* self)
        : scheduler_(scheduler), self_(self) {
      if (self != nullptr)
        stopped_ = self->stops.exchange(true);
    }
    ~StopScope() {
      if (self_ == nullptr)
        return;
      self_->stops = stopped_;
      if (scheduler_->watchers_.load() != 0)
        scheduler_->WakeWatchers();
    }
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

   private:
    ThreadScheduler* const scheduler_;
    HostThread* const self_;
    bool stopped_ = false;
  };
  // A thread whose clock shows `clock` is about to wake all waiters of `object`.
  void Signal(const void* object, TimePoint clock);
  // ... that one, if it waits for `object`.
  void SignalOne(HostThread* thread, const void* object, TimePoint clock);
  // ... the one that has waited longest, which is returned; nullptr: none.
  HostThread* SignalFirst(const void* object, TimePoint clock);
  // Finds threads that another process has woken. `clock`: of the process.
  bool SignalWoken(TimePoint clock);
  // The calling thread, whose clock shows `clock`, has written to a descriptor. Threads
  // that this has woken run once it has stopped.
  void SignalWritten(TimePoint clock);
  // CPU time so far of the helpers that are waited for. It grows if one has run between
  // two calls, even if it waits again.
  Duration CpuUsed();
  // Lets the thread check its wait, if it still waits for `object`.
  void KickWaiter(HostThread* thread, const void* object);
  // Whether a second thread exists or has existed.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // --- Called by drivers
  // Whether RunUntil has something to do at this time: one load.
  bool Due(TimePoint now) const {
    return now.nanoseconds() >= gate_ns_.load(std::memory_order_acquire);
  }
  // A safe point of the driver `self`. kOver: its turn ends, so that the other drivers
  // go first. Helpers go first in any case.
  enum class TurnEnd { kGoesOn, kOver };
  void BeginStop(HostThread* self, TurnEnd end);
  // Waits for the threads that run before `self` (nullptr: a driver without a place),
  // and lets helpers run whose limits are reached. `others_first`: returns as soon as
  // another process may run, or has an earlier limit. Returns how many it has left
  // behind.
  int RunUntil(TimePoint now, HostThread* self, bool others_first);
  // Whether several threads issue work, so that the waits of each are recorded.
  bool SeveralIssue() const { return issuing_.load(std::memory_order_relaxed) > 1; }
  // RunQueue::MaySleepThrough.
  bool MaySleepThrough(const HostThread* self, TimePoint deadline);
  // RunQueue::AnotherDriverHasLimit.
  bool AnotherDriverHasLimit(const HostThread* self);
  // RunQueue::AnotherMayRun, or another process.
  bool AnotherMayRun(const HostThread* self);
  // The earliest limit that a helper waits for, in ns; kNever where there is none.
  int64_t NextLimit();
  // RunQueue::IssuesBeside.
  bool IssuesBeside(HostThread* self, HostThread* before);

  // --- Limits where no thread can run: see TimedWait
  // A driver begins or ends a wait with a limit.
  using DriverWait = schedule::DriverWait;
  void AddDriverWait(DriverWait* wait);
  void RemoveDriverWait(DriverWait* wait);
  bool Signalled(const DriverWait& wait);
  // Publishes the earliest limit of this process to the emulator.
  void Publish();
  // The limit that the emulator has declared reached, once.
  std::optional<TimePoint> TakeGrant();
  // Ends the waits of helpers up to that limit.
  void Expire(TimePoint limit);

 private:
  using State = schedule::Thread::State;
  using Place = schedule::RunQueue::Place;

  // REQUIRES: the lock, for all of these. Those that wait release it meanwhile.
  void Woken(HostThread* thread, TimePoint clock);
  static void OweStop();
  static bool IsAwake(const HostThread& thread);
  int SettleAll(const HostThread* self);
  HostThread* FirstBefore(const HostThread* self) const {
    return static_cast<HostThread*>(queue_.FirstBefore(self));
  }
  void LookAtBlocked(HostThread* thread, bool counts);
  // State of a thread that waits for a running one, between two checks.
  struct Watch {
    bool by_driver = false;
    Duration nap = schedule::kFirstLook;
    std::optional<Duration> cpu_at_start{};
    Duration patience = schedule::kThreadTurn;
    int inside = 0;
  };
  enum class Seen { kNothing, kWaits, kComputes, kLeftBehind };
  Seen LookAtRunning(HostThread* thread, Watch* watch);
  bool MayPass(HostThread* thread, Watch* watch);
  void SleepUntilChanged(uint32_t seen);
  void Blocks(HostThread* thread);
  bool Settle(HostThread* thread, const HostThread* self);
  static bool WaitsOutside(const HostThread& thread, char* state);
  bool SettleBlocked(HostThread* thread, int* kicks);
  void AwaitAnswer(HostThread* thread);
  void Release(HostThread* thread);
  void Lend(HostThread* thread);
  void Changed();
  void NoteLimits();
  void WithdrawTurn();
  void WakeWatchers();

  protocol::SegmentHeader& header_;
  Answers* const answers_;
  FutexLock lock_;
  FutexLock turn_;  // held by a driver that takes no turns and lets helpers run
  std::vector<std::unique_ptr<HostThread>> threads_;
  schedule::RunQueue queue_;  // of all threads_
  LimitTicket ticket_;
  ThreadTeam team_;
  std::atomic<int> waking_{0};  // threads in a WakeScope
  std::atomic<bool> any_{false};
  std::atomic<int64_t> gate_ns_{kNever};
  std::atomic<uint32_t> watchers_{0};  // threads that wait for a change
  std::atomic<int> issuing_{0};
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_THREAD_SCHEDULER_H_
