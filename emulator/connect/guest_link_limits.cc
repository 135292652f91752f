// What a rank's threads wait for that the emulator ends: limits of waits, and turns.

#include <algorithm>
#include <iterator>

#include "base/guest/other_wait.h"
#include "emulator/connect/guest_link.h"
#include "schedule/processes.h"

namespace vrank::emulator {

using protocol::PidOf;
using protocol::SegmentHeader;

namespace {

schedule::ProcessLimit Order(const GuestLink::Limit& limit) {
  return {limit.ns, limit.other == nullptr ? 0 : PidOf(*limit.other)};
}

}  // namespace

uint64_t GuestLink::TurnWanted() const {
  const SegmentHeader& header = segment()->header;
  const uint64_t wanted = header.turn_wanted.load(std::memory_order_seq_cst);
  const bool seen = (wanted & protocol::kTurnOfWait) != 0 ||
                    header.settled.load(std::memory_order_relaxed) >= wanted;
  return !seen || wanted == header.turn_passed.load(std::memory_order_relaxed) ? 0
                                                                               : wanted;
}

std::optional<GuestLink::Limit> GuestLink::EarliestLimit() const {
  const SegmentHeader& header = segment()->header;
  // Its clock stands until then.
  if (const uint64_t turn = TurnWanted(); turn != 0)
    return Limit{static_cast<uint32_t>(turn), host_now_ns(), nullptr, true, turn, true};
  const uint32_t ticket = header.limit_ticket.load(std::memory_order_seq_cst);
  const int64_t ns = header.limit_ns.load(std::memory_order_seq_cst);
  const bool sleeps = header.limit_sleeps.load(std::memory_order_seq_cst) != 0;
  // While a limit is written, or once it has been granted, there is none.
  std::optional<Limit> earliest;
  if (ticket != 0 && header.limit_ticket.load(std::memory_order_seq_cst) == ticket &&
      header.granted_ticket.load(std::memory_order_relaxed) != ticket)
    earliest = Limit{.ticket = ticket, .ns = ns, .sleeps = sleeps, .only_time = sleeps};
  const bool driver_sleeps = earliest.has_value() && sleeps;
  for (protocol::OtherWait& wait : segment()->other_waits) {
    const uint32_t pid = PidOf(wait);
    const bool other_sleeps = protocol::Sleeps(wait);
    const uint32_t turn = wait.turn.load();
    const int64_t limit_ns = wait.Limit();
    if (limit_ns == 0)
      continue;
    if (earliest.has_value() &&
        schedule::ProcessLimit{limit_ns, pid} >= Order(*earliest))
      continue;
    earliest = Limit{.ticket = turn,
                     .ns = limit_ns,
                     .other = &wait,
                     .sleeps = driver_sleeps,
                     .only_time = driver_sleeps || other_sleeps,
                     .ends_at_rest = other_sleeps && others_slept_};
  }
  return earliest;
}

bool GuestLink::HasGrant() const {
  const SegmentHeader& header = segment()->header;
  const uint64_t wanted = header.turn_wanted.load(std::memory_order_seq_cst);
  if (wanted != 0 && header.turn_passed.load(std::memory_order_relaxed) == wanted)
    return true;
  const uint32_t ticket = header.limit_ticket.load(std::memory_order_seq_cst);
  if (ticket != 0 && header.granted_ticket.load(std::memory_order_relaxed) == ticket)
    return true;
  return std::any_of(std::begin(segment()->other_waits),
                     std::end(segment()->other_waits), [](const auto& wait) {
                       return wait.pid.load() != 0 && wait.turn.load() % 2 != 0;
                     });
}

void GuestLink::GrantLimit(const Limit& limit) {
  SegmentHeader& header = segment()->header;
  if (limit.turn != 0) {
    header.turn_passed.store(limit.turn, std::memory_order_seq_cst);
    header.thread_changes.fetch_add(1, std::memory_order_seq_cst);
    Wake(&header.thread_changes);
    return;
  }
  if (limit.other == nullptr) {
    header.granted_ticket.store(limit.ticket, std::memory_order_seq_cst);
    Wake(&header.granted_ticket);
    return;
  }
  // That sleep was long enough for all limits before its end to be known. After the
  // first sleep the rank's process publishes limits at once (others_time_uses).
  others_slept_ |= !limit.sleeps && protocol::Sleeps(*limit.other);
  int64_t reached = header.reached_ns.load();
  while (reached < limit.ns &&
         !header.reached_ns.compare_exchange_weak(reached, limit.ns)) {
  }
  protocol::ReachForOthers(&header, limit.ns);
  header.others_stirred.store(1);
  uint32_t turn = limit.ticket;
  if (limit.other->turn.compare_exchange_strong(turn, limit.ticket + 1))
    Wake(&limit.other->turn);
}

// What threads of a process that has ended have waited for.
void GuestLink::FreeWaitsOf(uint32_t pid) {
  for (protocol::OtherWait& wait : segment()->other_waits) {
    if (PidOf(wait) == pid && wait.Free())
      Wake(&wait.turn);
  }
}

}  // namespace vrank::emulator
