#include "virtual_host/turns/limit_ticket.h"

#include <utility>

#include "schedule/run_queue.h"
#include "virtual_host/system/raw_syscall.h"

namespace vrank::host {

void LimitTicket::Publish(int64_t limit_ns, bool sleeps) {
  const bool mine =
      is_out() && header_.limit_ticket.load(std::memory_order_acquire) == ticket_;
  if (mine && limit_ns == limit_ns_ && sleeps == sleeps_)
    return;
  if (limit_ns == schedule::kNever)
    return;
  const auto pid = static_cast<uint32_t>(RawSyscall(SYS_getpid));
  // Another process of the rank may wait for an earlier one.
  if (!mine && header_.limit_ticket.load() != 0 &&
      header_.granted_ticket.load() != header_.limit_ticket.load() &&
      header_.limit_pid.load() != pid && header_.limit_ns.load() <= limit_ns)
    return;
  header_.limit_ticket.store(0);
  header_.limit_ns.store(limit_ns);
  header_.limit_sleeps.store(sleeps ? 1 : 0);
  header_.limit_pid.store(pid);
  ticket_ = header_.tickets.fetch_add(1) + 1;
  limit_ns_ = limit_ns;
  sleeps_ = sleeps;
  header_.limit_ticket.store(ticket_, std::memory_order_release);
}

void LimitTicket::Withdraw() {
  if (uint32_t ticket = std::exchange(ticket_, 0); ticket != 0)
    header_.limit_ticket.compare_exchange_strong(ticket, 0);
}

std::optional<int64_t> LimitTicket::Take(int64_t earliest_ns) {
  if (!is_out() || header_.granted_ticket.load(std::memory_order_acquire) != ticket_)
    return std::nullopt;
  // Taken: the emulator need not wait for this thread to wake up any more.
  Withdraw();
  // What it was given for may have ended otherwise since.
  if (earliest_ns != limit_ns_)
    return std::nullopt;
  return limit_ns_;
}

void LimitTicket::ForgetAfterFork() {
  ticket_ = 0;
}

}  // namespace vrank::host
