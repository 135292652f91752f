// Decisions about ranks that are blocked in the emulator: on the end of work, or with a
// query whether work has ended.
//
// While some rank runs, what is before its clock is *past*: no rank does anything there
// any more. Waits that expire there, queries asked there and work that was aborted
// there are decided at once, and exactly. Where every rank is blocked, nothing else
// happens before the earliest query or limit, so that one is next.
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

// What is past. The members are independent of each other but for their order: the
// first that can be carried out is.
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

// How much longer a rank may query, and a thread may sleep, where every rank is
// blocked: the watchdogs of ranks that began alike do not time out at one moment. Ten
// ticks of PyTorch's. A job that is stuck is reported no later for it, since the time
// is virtual.
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
