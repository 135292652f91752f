// Scheduling rules for the processes of one rank. The *owner* issues GPU work and
// advances the rank's clock. The other processes (a data loader's workers) follow it.
//
//   ProcessLimit    timeouts expire in order of time. At equal times the owner's is
//                   first, then that of the process with the lowest id
//   NextStopStep    at a safe point: runnable processes run first, then runnable
//                   helpers, and only then does the next timeout expire. At equal
//                   times a helper's timeout expires before that of a process
//
// Pure functions: no system call, clock or lock. virtual_host/channel polls processes
// and helpers, and executes the steps. Times are in ns of the virtual
// clock. tests/schedule/processes_test.cc explores interleavings of small programs.
//
// Thread rule: plain values.

#ifndef VRANK_SCHEDULE_PROCESSES_H_
#define VRANK_SCHEDULE_PROCESSES_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace vrank::schedule {

// The earliest of several is the smallest.
struct ProcessLimit {
  int64_t ns = std::numeric_limits<int64_t>::max();
  uint32_t process = 0;  // its id; 0: the owner
  auto operator<=>(const ProcessLimit&) const = default;
};

// A safe point of the owner. Its clock stands still until kGoOn.
struct OwnerStop {
  int64_t now_ns = 0;
  // Something may have woken another process since all were last seen to wait.
  bool processes_may_run = true;
  // A helper may have been woken since helpers last ran.
  bool helpers_may_run = true;
  int64_t helper_limit_ns = 0;   // the earliest of them
  int64_t process_limit_ns = 0;  // likewise, of other processes
};

enum class StopStep : uint8_t {
  kSettleProcesses,  // until all of them wait
  kRunHelpers,       // until each waits; their timeouts up to process_limit_ns expire
  kExpireProcess,    // the earliest timeout of another process expires
  kGoOn
};
StopStep NextStopStep(const OwnerStop& stop);

}  // namespace vrank::schedule

#endif  // VRANK_SCHEDULE_PROCESSES_H_
