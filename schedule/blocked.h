// Decisions about ranks that are blocked in the emulator: on the end of work, or with a
// query whether work has ended.
//
// Times before the clocks of all running ranks are *past*: no rank acts there any more.
// Limits, queries and aborted work at such times are decided at once, and exactly. If
// every rank is blocked, no rank acts before the earliest query or limit, so that one
// is next.
//
// Pure functions of a snapshot: no clock, lock, system call, or state. Times are in ns
// of the virtual clock.
//
// Thread rule: plain values.

#ifndef VRANK_SCHEDULE_BLOCKED_H_
#define VRANK_SCHEDULE_BLOCKED_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "schedule/decide.h"

namespace vrank::schedule {

// What is past. The first member that can be carried out is carried out.
struct PastDecisions {
  // Work that was aborted before completes. 0: no time is past.
  int64_t aborted_before_ns = 0;
  // The wait of this rank (an index in Snapshot::ranks) expires once the rank rests.
  std::optional<size_t> expiring;
  // The oldest query is answered "not yet" (or with the memory in use). This holds for
  // all queries of its rank up to this time. kNoTime: no rank will issue work.
  std::optional<int64_t> answer_until_ns;
};
PastDecisions DecidePast(const Snapshot& snapshot,
                         const std::optional<OpenQuery>& oldest_query);

// How long a rank may continue to query, and a thread to sleep, after the latest clock
// if every rank is blocked: watchdogs of different ranks do not time out at the same
// moment. Ten ticks of PyTorch's watchdog. It does not delay the report of a deadlock,
// since the time is virtual.
inline constexpr int64_t kBeyondLatestClockNs = 1'000'000'000;

// The next decision where every rank is blocked, except that threads may let others of
// their process pass (graph::Engine::LetOtherThreadsPass).
struct BlockedDecision {
  enum class Kind : uint8_t {
    kNothing,
    kLimit,   // of rank `index`, once the rank rests; until then nothing is decided
    kAnswer,  // the oldest query, "not yet" until `until_ns`, or the memory in use
  };
  Kind kind = Kind::kNothing;
  size_t index = 0;
  int64_t until_ns = 0;
};
// `since_ns`: the latest clock when queries began to be all that is left; nullopt: they
// begin now. Without it, a query would be answered before a limit that is earlier.
BlockedDecision DecideAllBlocked(const Snapshot& snapshot,
                                 const OpenQuery& oldest_query,
                                 std::optional<int64_t> since_ns);

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_BLOCKED_H_
