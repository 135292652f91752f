// The processes of a rank that move no clock: a data loader's workers, commands.
//
// As with helper threads, virtual time stands still while one of them runs, and a wait
// with a limit ends when the clock gets there. But what another process waits for
// cannot be seen from here, so:
//
//   - A thread of such a process that waits with a limit says so in the segment
//     (OtherWait, on its side OtherLimit).
//   - The process that moves the clock stops at its next safe point once it may have
//     woken one up (it wrote to a descriptor, posted a semaphore, started a process),
//     or once the clock has passed such a limit. It waits until the kernel says of
//     every process that it has started that all their threads wait, and ends the
//     limits that the clock has passed, in their order, each with all that follows from
//     it.
//   - Where no thread of the session can run, the emulator ends the earliest limit:
//   that
//     of a sleep as soon as all rest.
//   - Processes that compute for long and never ask for the time (a data loader's
//     workers that decode images) are not waited for any more: what they do is the same
//     at any time, and they should run beside the owner. If one asks all the same, that
//     counts as left behind, and they are waited for again.
//
// The clock of a thread whose limit was reached is that limit until the owner goes on,
// and that of processes which have had none since is the latest one.
// See docs/decisions/0005-helper-threads.md.

#ifndef VRANK_VIRTUAL_HOST_TURNS_OTHER_PROCESSES_H_
#define VRANK_VIRTUAL_HOST_TURNS_OTHER_PROCESSES_H_

#include <atomic>
#include <cstdint>

#include "base/guest/protocol.h"
#include "base/guest/units.h"
#include "virtual_host/turns/futex.h"
#include "virtual_host/turns/process_tree.h"

namespace vrank::host {

// A limit that a thread of another process waits for. Thread rule: that thread's.
class OtherLimit {
 public:
  explicit OtherLimit(protocol::Segment* segment) : segment_(*segment) {}
  ~OtherLimit() { End(); }
  OtherLimit(const OtherLimit&) = delete;
  OtherLimit& operator=(const OtherLimit&) = delete;

  // `sleeps`: nothing but time ends the wait. False: there is no room.
  bool Begin(int64_t limit_ns, bool sleeps);
  bool Reached() const;
  // It has looked in vain at what it waits for.
  void CountTick();
  // Sleeps for a slice of real time at most. False: a signal ended it.
  bool Sleep(Duration slice);
  void End();

  // What this process (a program that it has been replaced by) had is void.
  static void EndAllOf(protocol::Segment* segment, uint32_t pid);

 private:
  protocol::Segment& segment_;
  protocol::OtherWait* wait_ = nullptr;
  uint32_t turn_ = 0;
};

// The owner's side. Thread rule: any thread that drives the clock.
class OtherProcesses {
 public:
  explicit OtherProcesses(protocol::Segment* segment)
      : segment_(*segment), header_(segment->header) {}

  // Some process may have been woken. Legal in a signal handler, and in the child of
  // vfork.
  static void Stir(protocol::SegmentHeader* header) {
    if (header->others_stirred.load(std::memory_order_relaxed) == 0)
      header->others_stirred.store(1);
  }
  // Something may have woken one of them since all were last seen to wait.
  bool stirred() const {
    return header_.others_stirred.load(std::memory_order_relaxed) != 0;
  }
  // ... or a thread waits for them at this moment.
  bool MayRun() const { return settling_.load() || stirred(); }
  // Whether there is something to do at a stop: a few loads.
  bool Due(TimePoint now) const {
    return stirred() ||
           header_.others_gate_ns.load(std::memory_order_relaxed) <=
               now.nanoseconds() ||
           HaveReached();
  }
  // Waits until all of them wait. kBusy: another thread does so, and the calling one
  // takes no turns. kNobody: this process has started none, or nobody waits for them
  // any more. kNothing: they waited already. kLeftBehind: virtual time has gone on
  // without them. `in_turn`: it waits for another thread that was before it when that
  // one began.
  enum class Outcome { kBusy, kNobody, kNothing, kRan, kLeftBehind };
  Outcome Settle(bool in_turn);
  // Likewise, in turn. kNothing: another thread has done so meanwhile.
  Outcome SettleIfStirred();
  // The earliest limit of theirs in ns; kNever: there is none.
  int64_t NextLimit(bool in_turn);
  // That limit is reached. Waits until the thread has noticed.
  void ExpireNext(bool in_turn);
  // All that follows has been waited for: the owner goes on.
  void EndTurn() { header_.others_turn.fetch_add(1); }
  void ForgetAll();

 private:
  // A limit of theirs was reached, and the owner has not gone on since.
  bool HaveReached() const {
    return header_.others_reached_turn.load(std::memory_order_relaxed) ==
           header_.others_turn.load(std::memory_order_relaxed) + 1;
  }
  bool BeginWork(bool in_turn);
  protocol::OtherWait* Earliest();
  void Release(protocol::OtherWait* wait);
  void NoteTurn(Duration cpu);
  Outcome SettleLocked();
  Outcome WaitUntilIdle();

  protocol::Segment& segment_;
  protocol::SegmentHeader& header_;
  FutexLock busy_;
  std::atomic<bool> settling_{false};
  ProcessTree tree_;
  int strikes_ = 0;     // times that they were left behind
  bool loose_ = false;  // they were, and have not all waited since
  // Turns in which they have computed for long, since they last asked for the time.
  int computing_ = 0;
  uint32_t time_uses_ = 0;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_OTHER_PROCESSES_H_
