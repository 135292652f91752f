#include "virtual_host/turns/other_processes.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/guest/other_wait.h"
#include "schedule/policy.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_scheduler.h"

namespace vrank::host {
namespace {

using protocol::OtherWait;
using protocol::PidOf;

void LowerTo(std::atomic<int64_t>* gate, int64_t ns) {
  int64_t now = gate->load();
  while (ns < now && !gate->compare_exchange_weak(now, ns)) {
  }
}

void Free(OtherWait* wait) {
  if (wait->Free())
    FutexWake(&wait->turn, INT_MAX, /*shared=*/true);
}

}  // namespace

// --- The side of the thread that waits
// -------------------------------------------------------------------------------

bool OtherLimit::Begin(int64_t limit_ns, bool sleeps) {
  const auto pid = static_cast<uint32_t>(RawSyscall(SYS_getpid)) |
                   (sleeps ? protocol::kOtherSleeps : 0);
  for (OtherWait& wait : segment_.other_waits) {
    uint32_t nobody = 0;
    if (wait.pid.load() != 0 || !wait.pid.compare_exchange_strong(nobody, pid))
      continue;
    wait_ = &wait;
    turn_ = wait.turn.load();
    wait.limit_ns.store(limit_ns);
    LowerTo(&segment_.header.others_gate_ns, limit_ns);
    return true;
  }
  return false;
}

bool OtherLimit::Reached() const {
  return wait_ != nullptr && wait_->turn.load() != turn_;
}

void OtherLimit::CountTick() {
  segment_.header.others_ticks.fetch_add(1);
}

bool OtherLimit::Sleep(Duration slice) {
  return FutexWait(&wait_->turn, turn_, slice, /*shared=*/true) != -EINTR;
}

void OtherLimit::End() {
  if (wait_ == nullptr)
    return;
  Free(wait_);
  wait_ = nullptr;
}

void OtherLimit::EndAllOf(protocol::Segment* segment, uint32_t pid) {
  for (OtherWait& wait : segment->other_waits)
    if (PidOf(wait) == pid)
      Free(&wait);
}

// --- The owner's side
// -------------------------------------------------------------------------------

bool OtherProcesses::BeginWork(bool in_turn) {
  if (!in_turn)
    return busy_.TryLock();
  busy_.Lock();
  return true;
}

OtherProcesses::Outcome OtherProcesses::Settle(bool in_turn) {
  if (!BeginWork(in_turn))
    return Outcome::kBusy;
  header_.others_stirred.store(0);
  const Outcome outcome = WaitUntilIdle();
  busy_.Unlock();
  return outcome;
}

OtherProcesses::Next OtherProcesses::EndNextLimit(TimePoint now,
                                                  ThreadScheduler* scheduler,
                                                  bool in_turn) {
  if (!BeginWork(in_turn))
    return Next::kNone;
  Next ended = Next::kNone;
  OtherWait* const next = Earliest();
  if (next != nullptr && next->limit_ns.load() <= now.nanoseconds()) {
    ended =
        scheduler->NextLimit() <= next->limit_ns.load() ? Next::kHelpers : Next::kEnded;
    if (ended == Next::kEnded)
      Release(next);
  }
  busy_.Unlock();
  return ended;
}

// Sets the gate to its limit. Of equal ones that of the process which was started
// first.
OtherWait* OtherProcesses::Earliest() {
  header_.others_gate_ns.store(kNever);
  OtherWait* earliest = nullptr;
  int64_t limit = kNever;
  for (OtherWait& wait : segment_.other_waits) {
    const int64_t own = wait.Limit();
    if (own == 0 || own > limit || (own == limit && PidOf(wait) > PidOf(*earliest)))
      continue;
    earliest = &wait;
    limit = own;
  }
  LowerTo(&header_.others_gate_ns, limit);
  return earliest;
}

// Waits until the thread has noticed. The emulator frees what a process leaves behind
// that has ended.
void OtherProcesses::Release(OtherWait* wait) {
  const uint32_t pid = wait->pid.load();
  protocol::ReachForOthers(&header_, wait->limit_ns.load());
  const uint32_t released = wait->turn.fetch_add(1) + 1;
  header_.others_stirred.store(1);
  FutexWake(&wait->turn, INT_MAX, /*shared=*/true);
  while (wait->turn.load() == released && wait->pid.load() == pid) {
    ExitIfAborting(header_);
    Nap(&header_.nappers, &wait->turn, released, schedule::kLongestLook,
        /*shared=*/true);
  }
}

OtherProcesses::Outcome OtherProcesses::WaitUntilIdle() {
  if (strikes_ >= schedule::kStrikes || !ProcessTree::HasChildren())
    return Outcome::kNobody;
  if (computing_ >= schedule::kLongProcessTurns) {
    if (header_.others_time_uses.load() == time_uses_)
      return Outcome::kNobody;
    computing_ = 0;
    return Outcome::kLeftBehind;
  }
  const auto runs = [this](const TreeLook& look) {
    return look.runs - header_.others_ticks.load();
  };
  TreeLook last = tree_.Look();
  uint64_t last_runs = runs(last);
  const Duration cpu_at_start = last.cpu;
  Duration nap = schedule::kFirstLook;
  // One look goes from thread to thread, and what has been seen to wait may have been
  // woken by the next. So nobody may have run between two looks.
  for (bool ran = false;; ran = true) {
    const TreeLook next = tree_.Look();
    const uint64_t next_runs = runs(next);
    if (last.idle && next.idle && next_runs == last_runs) {
      loose_ = false;
      NoteTurn(next.cpu - cpu_at_start);
      return ran ? Outcome::kRan : Outcome::kNothing;
    }
    if (loose_)
      return Outcome::kNobody;
    if (next.cpu - cpu_at_start >= schedule::kProcessTurn) {
      loose_ = true;
      ++strikes_;
      return Outcome::kLeftBehind;
    }
    ExitIfAborting(header_);
    std::atomic<uint32_t> nothing{0};
    Nap(&header_.nappers, &nothing, 0, nap, /*shared=*/false);
    nap = std::min(nap + nap, schedule::kLongestLook);
    last = next;
    last_runs = next_runs;
  }
}

// All wait again, after having used that much CPU time.
void OtherProcesses::NoteTurn(Duration cpu) {
  const uint32_t uses = header_.others_time_uses.load();
  if (std::exchange(time_uses_, uses) != uses)
    computing_ = 0;
  else if (cpu >= schedule::kLongProcessTurn)
    ++computing_;
}

void OtherProcesses::ForgetAll() {
  busy_.ResetAfterFork();
  tree_.Forget();
  strikes_ = 0;
  loose_ = false;
  computing_ = 0;
}

}  // namespace vrank::host
