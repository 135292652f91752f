// Decisions in a quiescent session, one in which no thread can run.
//
// A process outside of the session (a server, a user) or a thread that vrank does not
// observe may still complete a wait. The earliest query or limit in virtual time is
// therefore decided only after a *quiet period* of real time, or at once if no outside
// event can affect it. The length of the period determines whether there is a decision,
// not which one. The exception is kLetOthersPass: it requires 100 ms, and a limit that
// is due after 40 ms may expire first.
//
// Pure functions: no clock, lock, system call, or state. Times are in ns of the virtual
// clock, the quiet period in ms of real time.
//
// Thread rule: plain values.

#ifndef VRANK_SCHEDULE_QUIET_H_
#define VRANK_SCHEDULE_QUIET_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "schedule/decide.h"

namespace vrank::schedule {

struct QuietSession {
  // How long no thread has run; 0: a thread runs, or may run.
  std::chrono::milliseconds quiet{0};
  // Every thread is blocked on another thread or on the emulator: no outside event can
  // wake one.
  bool all_wait_for_threads = false;
  // The earliest limit is a sleep of another process, all ranks are idle, and no event
  // without a time precedes it: the sleep completes without a quiet period.
  bool ends_at_rest = false;
  // A thread of a rank sleeps. It wakes up by itself, and may then do what others wait
  // for.
  bool anyone_sleeps = false;
  // A real rank waits for a key of the store that a virtual rank would have set.
  bool awaits_virtual_key = false;
  // A thread may be blocked on work that another thread of its process issues behind
  // it. False: kLetOthersPass was tried, and there is no such thread.
  bool others_may_pass = true;
  // All ranks that have not exited are blocked in the emulator.
  bool all_wait_here = false;
  // A rank whose threads wait for each other, and not in the emulator, is stuck. False:
  // it is left to a debugger (--hang-after 0).
  bool ends_stuck_ranks = true;

  std::optional<OpenQuery> oldest_query;

  struct Limit {
    int64_t ns = 0;
    int64_t clock_ns = 0;  // of its rank
    bool granted = false;  // it has expired, and its thread has not resumed yet
  };
  std::optional<Limit> earliest_limit;
};

enum class QuietDecision : uint8_t {
  kNothing,
  kSetVirtualKeys,
  // The wait no longer blocks the rank's other threads. If there is no such wait, call
  // again with others_may_pass set to false.
  kLetOthersPass,
  kAnswerQuery,  // "not yet", or the memory in use
  kEndLimit,
  kDeadlock,
};

// The first that applies: keys, other threads, then the earlier of the oldest query and
// the earliest limit; at the same time, the query.
QuietDecision DecideWhenQuiet(const QuietSession& session);

// The quiet period before a wait of that length expires: a tenth of it, 40 ms at least
// and 5 s at most (policy.def). Events from outside (a download) arrive later than the
// job's own.
std::chrono::milliseconds PatienceFor(int64_t wait_ns);

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_QUIET_H_
