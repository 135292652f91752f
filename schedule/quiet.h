// What is decided where no thread of a session can run.
//
// Virtual time cannot say what happens next there: somebody outside of the session (a
// server, a user, a thread that vrank does not observe) may end a wait. So what comes
// first in virtual time is decided once nothing has run for a while of real time, and
// at once where nobody outside can matter. The while decides whether something is
// decided, and never what, with one exception (kLetOthersPass).
//
// Pure functions: no clock, lock, system call, or state. Times are in ns of the virtual
// clock, the while in ms of real time.
//
// Thread rule: plain values.

#ifndef VRANK_SCHEDULE_QUIET_H_
#define VRANK_SCHEDULE_QUIET_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace vrank::schedule {

struct QuietSession {
  // For how long no thread has run; 0: some thread does, or may.
  std::chrono::milliseconds quiet{0};
  // Each thread waits for another one, or for the emulator: nobody outside can matter.
  bool all_wait_for_threads = false;
  // The earliest limit is a sleep of another process, all ranks rest, and nothing
  // without a time comes first: that sleep ends without a while.
  bool ends_at_rest = false;
  // A rank's thread sleeps, which goes on by itself: it may bring what others wait for.
  bool anyone_sleeps = false;
  // A real rank waits for a key of the store that a virtual rank would have set.
  bool awaits_virtual_key = false;
  // A thread of a rank may wait for what another one of its process has issued behind
  // it. False: it was tried, and none does.
  bool others_may_pass = true;
  // All ranks that have not ended wait in the emulator.
  bool all_wait_here = false;

  struct Query {
    int64_t asked_ns = 0;
    bool about_memory = false;  // of other processes, not about the end of work
  };
  std::optional<Query> oldest_query;

  struct Limit {
    int64_t ns = 0;
    int64_t clock_ns = 0;  // of its rank
    bool granted = false;  // it has ended, and its thread has not continued yet
  };
  std::optional<Limit> earliest_limit;
};

enum class QuietDecision : uint8_t {
  kNothing,
  kSetVirtualKeys,
  // The wait of a thread becomes its own, and the rank's other threads go on. If no
  // rank has such a wait: ask again with others_may_pass false.
  kLetOthersPass,
  kAnswerQuery,  // "not yet", or the memory in use
  kEndLimit,
  kDeadlock,
};

// The first that applies, of: keys, other threads, then whichever of the oldest query
// and the earliest limit has the lower time, the query where they are equal.
QuietDecision DecideWhenQuiet(const QuietSession& session);

// For how long a session has to be quiet before a wait of that length ends at its
// limit: a tenth of it, 40 ms at least and 5 s at most (policy.def). What comes from
// outside (a download) is later than any of the job's own.
std::chrono::milliseconds PatienceFor(int64_t wait_ns);

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_QUIET_H_
