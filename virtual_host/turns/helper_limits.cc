// Limits of waits: which is the earliest, and what happens when it is reached. Where no
// thread of the session can run, the process tells the emulator its earliest one, and
// ends that wait once the emulator says so.

#include <algorithm>

#include "virtual_host/system/raw_syscall.h"
#include "virtual_host/turns/helper_threads.h"

namespace vrank::host {

using State = Helper::State;

void HelperThreads::AddDriverWait(DriverWait* wait) {
  any_ = true;
  LockGuard guard(&lock_);
  driver_waits_.push_back(wait);
  NoteLimits();
}

void HelperThreads::RemoveDriverWait(DriverWait* wait) {
  LockGuard guard(&lock_);
  std::erase(driver_waits_, wait);
  NoteLimits();
}

bool HelperThreads::Signalled(const DriverWait& wait) {
  LockGuard guard(&lock_);
  return wait.signalled;
}

// One that is signalled and still waits counts, too: the signal was for another one, or
// it was taken for woken while it only looked whether its limit was over.
bool HelperThreads::AwaitsLimit(const Helper& helper) {
  const bool waits = helper.state == State::kParked ||
                     (helper.state == State::kBlocked && helper.signalled);
  return waits && helper.deadline_ns != kNever;
}

int64_t HelperThreads::EarliestLimit() const {
  int64_t earliest = kNever;
  for (const auto& helper : helpers_)
    if (AwaitsLimit(*helper))
      earliest = std::min(earliest, helper->deadline_ns);
  for (const DriverWait* wait : driver_waits_)
    earliest = std::min(earliest, wait->deadline_ns);
  return earliest;
}

Helper* HelperThreads::Earliest() {
  Helper* earliest = nullptr;
  for (const auto& helper : helpers_) {
    if (!AwaitsLimit(*helper))
      continue;
    if (earliest == nullptr || helper->deadline_ns < earliest->deadline_ns ||
        (helper->deadline_ns == earliest->deadline_ns &&
         helper->order < earliest->order))
      earliest = helper.get();
  }
  return earliest;
}

int64_t HelperThreads::NextLimit() {
  LockGuard guard(&lock_);
  const Helper* const next = Earliest();
  return next == nullptr ? kNever : next->deadline_ns;
}

void HelperThreads::Release(Helper* helper) {
  helper->clock_ns = std::max(helper->clock_ns.load(), helper->deadline_ns);
  helper->signalled = false;
  helper->expired = true;
  LetRun(helper, State::kReleased, Place::kFirst);
  helper->kick(helper);
}

void HelperThreads::Publish() {
  LockGuard guard(&lock_);
  PublishLimit();
}

// Beside other real ranks the emulator knows at all times what a rank waits for, and
// whether it sleeps: their sleeps must not go past it, and nothing that waits for a
// session without sleepers is decided. Likewise once another process of the rank has
// slept: such a sleep ends as soon as all rest, and not past a limit of this one.
// Elsewhere it asks for no limit before all has been at rest for a while. One that
// nobody waits for any more is taken back in any case: it would be granted, and nobody
// would take the grant.
void HelperThreads::NoteLimits() {
  const bool tells =
      protocol::HasRealPeers(header_.settings) || header_.others_time_uses.load() != 0;
  if (!tells && ticket_ == 0)
    return;
  if (EarliestLimit() != kNever) {
    if (tells)
      PublishLimit();
  } else if (ticket_ != 0) {
    header_.limit_ticket.compare_exchange_strong(ticket_, 0);
    ticket_ = 0;
  }
}

// Of those that issue work none can run, and one sleeps.
bool HelperThreads::IssuersSleep() const {
  bool any = false;
  for (const auto& helper : helpers_) {
    if (helper->issues && IsInTurn(*helper))
      return false;
    any |= helper->issues && helper->sleeps && AwaitsLimit(*helper);
  }
  return any;
}

void HelperThreads::PublishLimit() {
  const int64_t earliest = EarliestLimit();
  const bool sleeps =
      std::any_of(driver_waits_.begin(), driver_waits_.end(),
                  [](const DriverWait* wait) { return wait->sleeps; }) ||
      IssuersSleep();
  const bool mine =
      ticket_ != 0 && header_.limit_ticket.load(std::memory_order_acquire) == ticket_;
  if (mine && earliest == published_ns_ && sleeps == published_sleeps_)
    return;
  if (earliest == kNever)
    return;
  // Another process of the rank may wait for an earlier one.
  if (!mine && header_.limit_ticket.load() != 0 &&
      header_.granted_ticket.load() != header_.limit_ticket.load() &&
      header_.limit_pid.load() != static_cast<uint32_t>(RawSyscall(SYS_getpid)) &&
      header_.limit_ns.load() <= earliest)
    return;
  header_.limit_ticket.store(0);
  header_.limit_ns.store(earliest);
  header_.limit_sleeps.store(sleeps ? 1 : 0);
  header_.limit_pid.store(static_cast<uint32_t>(RawSyscall(SYS_getpid)));
  ticket_ = header_.tickets.fetch_add(1) + 1;
  published_ns_ = earliest;
  published_sleeps_ = sleeps;
  header_.limit_ticket.store(ticket_, std::memory_order_release);
}

std::optional<TimePoint> HelperThreads::TakeGrant() {
  LockGuard guard(&lock_);
  if (ticket_ == 0 || header_.granted_ticket.load(std::memory_order_acquire) != ticket_)
    return std::nullopt;
  // Taken: the emulator need not wait for this thread to wake up any more.
  header_.limit_ticket.compare_exchange_strong(ticket_, 0);
  ticket_ = 0;
  // What it was given for may have ended otherwise since.
  if (EarliestLimit() != published_ns_)
    return std::nullopt;
  return TimePoint::FromNanoseconds(published_ns_);
}

void HelperThreads::Expire(TimePoint limit) {
  LockGuard guard(&lock_);
  Helper* const earliest = Earliest();
  if (earliest != nullptr && earliest->deadline_ns <= limit.nanoseconds())
    Release(earliest);
  Changed();
}

}  // namespace vrank::host
