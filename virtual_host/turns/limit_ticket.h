// What this process tells the emulator of its waits: the earliest limit, and whether
// whoever waits there sleeps. The emulator grants it where no thread of the session can
// run.
//
// Thread rule: the caller's lock (HelperThreads). Other processes of the rank have
// tickets of their own in the same place of the segment.

#ifndef VRANK_VIRTUAL_HOST_TURNS_LIMIT_TICKET_H_
#define VRANK_VIRTUAL_HOST_TURNS_LIMIT_TICKET_H_

#include <cstdint>
#include <optional>

#include "base/guest/protocol.h"

namespace vrank::host {

class LimitTicket {
 public:
  explicit LimitTicket(protocol::SegmentHeader* header) : header_(*header) {}

  bool is_out() const { return ticket_ != 0; }
  // Replaces what was told before. kNever: tells nothing.
  void Publish(int64_t limit_ns, bool sleeps);
  // One that nobody waits for any more is taken back: it would be granted, and nobody
  // would take the grant.
  void Withdraw();
  // The limit that the emulator has declared reached, once. nullopt also where that is
  // not the earliest one any more.
  std::optional<int64_t> Take(int64_t earliest_ns);
  void ForgetAfterFork();

 private:
  protocol::SegmentHeader& header_;
  uint32_t ticket_ = 0;  // of what is published; 0: nothing
  int64_t limit_ns_ = 0;
  bool sleeps_ = false;
};

}  // namespace vrank::host

#endif  // VRANK_VIRTUAL_HOST_TURNS_LIMIT_TICKET_H_
