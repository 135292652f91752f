#include "virtual_host/turns/other_processes.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/guest/other_wait.h"
#include "schedule/policy.h"
#include "schedule/processes.h"
#include "schedule/run_queue.h"
#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/session_end.h"

namespace vrank::host {
namespace {

using protocol::OtherWait;
using protocol::PidOf;
using schedule::kNever;
using schedule::ProcessLimit;

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
  const Outcome outcome = SettleLocked();
  busy_.Unlock();
  return outcome;
}

OtherProcesses::Outcome OtherProcesses::SettleIfStirred() {
  LockGuard guard(&busy_);
  return stirred() ? SettleLocked() : Outcome::kNothing;
}

// REQUIRES: busy_ held.
OtherProcesses::Outcome OtherProcesses::SettleLocked() {
  settling_.store(true);
  header_.others_stirred.store(0);
  const Outcome outcome = WaitUntilIdle();
  settling_.store(false);
  return outcome;
}

int64_t OtherProcesses::NextLimit(bool in_turn) {
  if (!BeginWork(in_turn))
    return kNever;
  Earliest();
  const int64_t limit_ns = header_.others_gate_ns.load();
  busy_.Unlock();
  return limit_ns;
}

void OtherProcesses::ExpireNext(bool in_turn) {
  if (!BeginWork(in_turn))
    return;
  if (OtherWait* const next = Earliest())
    Release(next);
  busy_.Unlock();
}

// Sets the gate to its limit.
OtherWait* OtherProcesses::Earliest() {
  header_.others_gate_ns.store(kNever);
  OtherWait* earliest = nullptr;
  ProcessLimit first;
  for (OtherWait& wait : segment_.other_waits) {
    const ProcessLimit limit{wait.Limit(), PidOf(wait)};
    if (limit.ns == 0 || limit >= first)
      continue;
    earliest = &wait;
    first = limit;
  }
  LowerTo(&header_.others_gate_ns, first.ns);
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
  settling_ = false;
  tree_.Forget();
  strikes_ = 0;
  loose_ = false;
  computing_ = 0;
}

}  // namespace vrank::host
