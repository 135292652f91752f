// The threads of this process, and whose turn it is: those that issue no work (helpers:
// watchdogs, heartbeats, loggers), and those that do.
//
// Virtual time stands still while one of them runs, so what it sees and when it sees it
// is a function of the program. Each has a clock of its own: that of whoever woke it,
// or the limit of the wait that ended. A thread that moves the process clock (a
// *driver*) stops at its next safe point once the clock has reached the earliest limit
// that a helper waits for; helpers then run one after the other, in the order of their
// limits, until each waits again. See docs/decisions/0005-helper-threads.md.
//
// What a helper is doing:
//
//   kRunning   runs: drivers wait for it at their safe points
//   kParked    waits where this library sees it: for a limit, a signal of its object
//   kReleased  its limit is reached and it has been woken, but has not got out yet
//   kBlocked   waits where the library does not see it (a lock, a file); drivers go on,
//              but look at it again at the next safe points
//   kQuiet     the same for so long that nobody looks until it calls in
//   kLoose     computes for longer than a driver waits; nobody waits for it
//
// Whether a thread waits is the kernel's word (kernel_thread.h): that covers every lock
// and every file, and a thread counts as running again from the moment in which it is
// woken, before it has got a core. A lock of this library is no such wait: whoever
// looks at a helper may be holding it. Nor is a sleep out of which somebody is about to
// get it (WakeScope).
//
// Thread rule: every method may be called from any thread; none may be called with the
// channel's lock held.

#ifndef VRANK_VIRTUAL_HOST_TURNS_HELPER_THREADS_H_
#define VRANK_VIRTUAL_HOST_TURNS_HELPER_THREADS_H_

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/guest/protocol.h"
#include "base/guest/units.h"
#include "schedule/policy.h"
#include "virtual_host/turns/answers.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/kernel_thread.h"

namespace vrank::host {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct Helper {
  enum class State : uint32_t {
    kFree,
    kRunning,
    kParked,
    kReleased,
    kBlocked,
    kQuiet,
    kLoose
  };
  // Gets the thread out of its wait; it may be called in vain, and more than once.
  using Kick = void (*)(Helper* helper);

  std::atomic<State> state{State::kFree};
  std::atomic<int64_t> clock_ns{0};
  std::atomic<uint32_t> asks{protocol::kNoSlot};  // the slot that it waits on
  // While kParked: the answer that it waits for, and the ring's position behind the
  // question; where it keeps its turn, a number of that wait's own.
  uint32_t open_slot = protocol::kNoSlot;
  uint64_t asked_at = 0;
  std::atomic<uint32_t> word{0};  // for waits of our own making: bumped by a kick
  // Under the table's lock.
  uint64_t parked = 0;  // the place of its wait among all waits so far
  // The place of its running: the smallest runs first. Those that asked, while others
  // went on without them, and were answered have one place, in the order of questions.
  struct Turn {
    int64_t place = 0;
    uint64_t question = 0;  // 0: not answered in this turn
    auto operator<=>(const Turn&) const = default;
  };
  Turn turn;
  pid_t tid = 0;                 // 0: announced, and not running yet
  uint32_t* passages = nullptr;  // ThreadState::passages of that thread
  uint64_t order = 0;
  int64_t deadline_ns = kNever;
  const void* object = nullptr;  // what it waits for
  Kick kick = nullptr;
  uint64_t kick_argument = 0;
  bool expired = false;    // its limit was reached
  bool signalled = false;  // its object was signalled, perhaps for somebody else
  bool guessed = false;    // ... or it was only seen awake
  // ... after a write by a thread whose clock showed this; kNever: after none.
  int64_t written_ns = kNever;
  // Writes after which it was, and those before its latest look.
  uint32_t writes = 0, seen_writes = 0;
  int looks = 0;        // while kBlocked
  int strikes = 0;      // times that it became kLoose
  bool issues = false;  // it issues work
  bool joins = false;   // ... since this turn, which it began as a helper
  bool takes_turns() const { return issues && !joins; }
  bool sleeps = false;      // while it waits: for nothing but the limit
  bool polls = false;       // ... for descriptors, which whoever writes does not name
  bool keeps_turn = false;  // ... perhaps for another rank, and others wait for it
  bool kept_turn = false;   // ... and did so until it went on
  // Since it last issued it has waited for what another thread may have brought.
  bool waited = false;
  // It has called another thread, which goes on when this one has stopped.
  std::atomic<bool> owes_stop{false};
  std::atomic<bool> stops{false};  // StopScope
};

class HelperThreads {
 public:
  HelperThreads(protocol::Segment* segment, Answers* answers)
      : header_(segment->header), answers_(answers) {}

  // --- A thread's life
  // The thread is about to be created, by one whose clock shows `clock`.
  Helper* Announce(TimePoint clock);
  // Called on the thread itself.
  void Begin(Helper* helper);
  // It has been created by `self`, and goes first: until it waits or ends its turn, but
  // at most for a moment, since it may compute, or spin until its creator goes on.
  void AwaitStart(Helper* helper, const Helper* self);
  // It ended, could not be created, or issues work from now on.
  void End(Helper* helper);
  // A thread is about to be created that computes for others (library_code.h,
  // IsTeamCode). While it runs, so does whoever seems to wait.
  void AnnounceTeam() { team_starts_.fetch_add(1); }
  // It could not be created.
  void WithdrawTeam() { team_starts_.fetch_sub(1); }
  // Called on the thread itself.
  void JoinTeam();
  // The calling thread issues work from now on, or is a main thread that drives the
  // clock until one does. `helper`: as what it was known so far, or nullptr.
  Helper* BeginIssuing(Helper* helper);
  // Another thread does, and this one issued none: it is a helper. `clock`: of the
  // process.
  void BecomeHelper(Helper* helper, TimePoint clock);
  // In the child after fork: its only thread is no helper.
  void ForgetAll();

  // --- Called by helpers
  // It calls in: whatever it waited for unseen is over. `clock`: of the process.
  void Touch(Helper* helper, TimePoint clock);
  // It waits from now on until `deadline`, or for `object`, or in the way that is said.
  // kNetwork: for descriptors, by which another rank may send something.
  enum class WaitsFor { kObject, kDescriptors, kNetwork, kLimitOnly };
  void Park(Helper* helper, int64_t deadline_ns, const void* object, Helper::Kick kick,
            uint64_t kick_argument = 0, WaitsFor waits_for = WaitsFor::kObject);
  // It waits for the end of work on the GPU, which the emulator is to tell in `slot`.
  void ParkAsking(Helper* helper, uint32_t slot);
  // It asks the emulator a question that costs no time, or, where it issues work, one
  // that holds up the rank.
  void BeginAsking(Helper* helper, uint32_t slot);
  void EndAsking(Helper* helper);
  // It has been woken, and lets those go on to their next wait first that were woken
  // before it. Returns how many it has given up waiting for.
  int AwaitTurn(Helper* helper);
  // It got out of its wait for descriptors.
  void GotOut(Helper* helper);
  // It goes on waiting after a signal that was not for it, unless somebody has written
  // since BeginLook: it is to look again, then.
  void ParkAgain(Helper* helper);
  void BeginLook(Helper* helper);
  enum class Outcome { kWaits, kExpired, kSignalled };
  Outcome Look(Helper* helper);
  // Calls take() where it was signalled, or no other helper was by its object, and lets
  // none be meanwhile. `called`: its turn has come after a signal; kNotYet: it has been
  // signalled since, and is to await its turn.
  enum class Took { kNo, kYes, kNotYet };
  template <typename Function>
  Took Take(const Helper& helper, bool called, Function take) {
    LockGuard guard(&lock_);
    if (helper.signalled && !called)
      return Took::kNotYet;
    const bool its_turn =
        (called && !helper.guessed) || !AnyoneSignalled(helper.object);
    return its_turn && take() ? Took::kYes : Took::kNo;
  }
  // Before it waits for `object`: calls take(), unless a helper was signalled by that.
  // One that gets it so has never seemed to wait.
  template <typename Function>
  bool TakeAtOnce(Helper* helper, const void* object, Function take) {
    LockGuard guard(&lock_);
    helper->waited = true;
    return !AnyoneSignalled(object) && take();
  }
  // It goes on behind what another thread has done, whose clock showed this.
  static void RaiseClock(Helper* helper, TimePoint clock) {
    helper->clock_ns = std::max(helper->clock_ns.load(), clock.nanoseconds());
  }
  // It runs again. `clock`: of the process, for a wake-up that nobody announced.
  void Unpark(Helper* helper, TimePoint clock);

  // --- Called by anybody
  // While one lives, the calling thread has signalled others that may not have been got
  // out of their sleep yet: until then nobody who sleeps counts as waiting.
  class WakeScope {
   public:
    explicit WakeScope(HelperThreads* threads) : waking_(threads->waking_) {
      waking_.fetch_add(1);
    }
    ~WakeScope() { waking_.fetch_sub(1); }
    WakeScope(const WakeScope&) = delete;
    WakeScope& operator=(const WakeScope&) = delete;

   private:
    std::atomic<int>& waking_;
  };
  // While one lives `self` (which may be nullptr) has stopped for others, or asks a
  // name server: whoever waits for it does so for as long.
  class StopScope {
   public:
    StopScope(HelperThreads* threads, Helper* self) : threads_(threads), self_(self) {
      if (self != nullptr)
        stopped_ = self->stops.exchange(true);
    }
    ~StopScope() {
      if (self_ == nullptr)
        return;
      self_->stops = stopped_;
      if (threads_->watchers_.load() != 0)
        threads_->WakeWatchers();
    }
    StopScope(const StopScope&) = delete;
    StopScope& operator=(const StopScope&) = delete;

   private:
    HelperThreads* const threads_;
    Helper* const self_;
    bool stopped_ = false;
  };
  // `object` is about to be signalled by a thread whose clock shows `clock`.
  void Signal(const void* object, TimePoint clock);
  // ... for this helper, where that is what it waits for.
  void SignalOne(Helper* helper, const void* object, TimePoint clock);
  // ... for whoever has waited longest: that helper, or nullptr.
  Helper* SignalFirst(const void* object, TimePoint clock);
  // Another process may have woken some of them up, who have not got out of their waits
  // yet: whether there are any. `clock`: of the process.
  bool SignalWoken(TimePoint clock);
  // The calling thread, whose clock shows `clock`, has written to a descriptor: those
  // that it has woken up by that go on when it has stopped.
  void SignalWritten(TimePoint clock);
  // CPU time that those which are waited for have used so far: more of it says that one
  // has run meanwhile, though it waits again.
  Duration CpuUsed();
  // It looks for itself now, if it still waits for that object.
  void KickWaiter(Helper* helper, const void* object);
  // Whether there is, or ever was, anybody to announce it to.
  bool any() const { return any_.load(std::memory_order_relaxed); }

  // --- Called by drivers
  // Whether RunUntil has something to do at this time: one load.
  bool Due(TimePoint now) const {
    return now.nanoseconds() >= gate_ns_.load(std::memory_order_acquire);
  }
  // A safe point of `self`, which issues work. kOver: its turn ends here, so that all
  // others that issue work go first. Helpers do anyhow.
  enum class TurnEnd { kGoesOn, kOver };
  void BeginStop(Helper* self, TurnEnd end);
  // Lets helpers run whose limits are reached, and waits for those that run, which are
  // those before it where `self` takes turns (else nullptr). `others_first`: until they
  // may have woken another process. Returns how many it has given up waiting for.
  int RunUntil(TimePoint now, Helper* self, bool others_first);
  // Whether several threads issue work, so that the waits of each are to be known.
  bool SeveralIssue() const { return issuing_.load(std::memory_order_relaxed) > 1; }
  // Whether `self`, which sleeps until `deadline`, moves the clock there: no other one
  // could run, were it its turn, and none has a limit that comes earlier.
  bool MaySleepThrough(const Helper* self, TimePoint deadline);
  // The earliest limit that a helper waits for, in ns; kNever where there is none.
  int64_t NextLimit();
  // `self` issues. Whether it and `before`, who was the last to do so, issue at the
  // same time.
  bool IssuesBeside(Helper* self, Helper* before);

  // --- Limits where no thread can run: see TimedWait
  // A driver begins or ends a wait with a limit.
  struct DriverWait {
    int64_t deadline_ns;
    const void* object;
    bool sleeps = false;  // it waits for nothing but the limit
    bool signalled = false;
  };
  void AddDriverWait(DriverWait* wait);
  void RemoveDriverWait(DriverWait* wait);
  bool Signalled(const DriverWait& wait);
  // Tells the emulator the earliest limit that somebody here waits for.
  void Publish();
  // The limit that the emulator has declared reached, once.
  std::optional<TimePoint> TakeGrant();
  // Ends the waits of helpers up to that limit.
  void Expire(TimePoint limit);

 private:
  // REQUIRES: the lock, for all of these. Settle gives it back for a while.
  void ParkLocked(Helper* helper, int64_t deadline_ns, const void* object,
                  Helper::Kick kick, uint64_t kick_argument);
  bool AnyoneSignalled(const void* object) const;
  static bool AwaitsSignal(const Helper& helper);
  static bool IsAwake(const Helper& helper);
  void Woken(Helper* helper, TimePoint clock);
  static void OweStop();
  enum class Place { kFirst, kLast };
  void LetRun(Helper* helper, Helper::State state, Place place);
  static bool Runs(Helper::State state) {
    return state == Helper::State::kRunning || state == Helper::State::kReleased;
  }
  // Others wait for it.
  static bool IsInTurn(const Helper& helper) {
    return Runs(helper.state) || helper.keeps_turn;
  }
  int SettleAll(const Helper* self);
  Helper* FirstRunning(const Helper* self) const;
  static bool GoesBefore(const Helper& helper, const Helper* self);
  void GoesOnAnswered(Helper* helper);
  void LookAtBlocked(Helper* helper, bool counts);
  // What whoever waits for a running helper keeps between two looks.
  struct Watch {
    bool by_driver = false;
    Duration nap = schedule::kFirstThreadLook;
    std::optional<Duration> cpu_at_start{};
    Duration patience = schedule::kThreadTurn;
    int inside = 0;
  };
  enum class Seen { kNothing, kWaits, kComputes, kLeftBehind };
  bool TeamRuns(Duration* cpu);
  Seen LookAtRunning(Helper* helper, Watch* watch);
  bool MayPass(Helper* helper, Watch* watch);
  void SleepUntilChanged(uint32_t seen);
  void Blocks(Helper* helper);
  void WantNoTurn(const Helper& helper);
  bool Settle(Helper* helper, const Helper* self);
  static bool WaitsOutside(const Helper& helper, char* state);
  bool SettleBlocked(Helper* helper, int* kicks);
  void StopLooking(Helper* helper);
  void AwaitAnswer(Helper* helper);
  Helper* Earliest();
  void Release(Helper* helper);
  void Changed();
  void WakeWatchers();
  static bool AwaitsLimit(const Helper& helper);
  int64_t EarliestLimit() const;
  bool IssuersSleep() const;
  void PublishLimit();
  void NoteLimits();
  void Lend(Helper* helper);

  protocol::SegmentHeader& header_;
  Answers* const answers_;
  FutexLock lock_;
  FutexLock turn_;  // held by a driver that takes no turns and lets helpers run
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::vector<DriverWait*> driver_waits_;
  std::vector<pid_t> team_;
  std::atomic<int> team_starts_{0};  // announced, and not running yet
  std::atomic<int> waking_{0};       // threads in a WakeScope
  std::atomic<bool> any_{false};
  std::atomic<int64_t> gate_ns_{kNever};
  std::atomic<uint32_t> watchers_{0};  // threads that wait for a change
  uint64_t next_order_ = 0;
  uint64_t waits_ = 0;  // so far
  int64_t first_turn_ = 0, last_turn_ = 0;
  std::atomic<int> issuing_{0};
  uint32_t ticket_ = 0;  // of what this process has published; 0: nothing
  int64_t published_ns_ = kNever;
  bool published_sleeps_ = false;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_HELPER_THREADS_H_
