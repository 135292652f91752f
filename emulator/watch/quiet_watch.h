// Notices that no thread of the session can run.
//
// Two things may then be decided that otherwise have to wait: a wait with a time limit
// has reached it, and a question "has it ended by now?" is answered "not yet". Both are
// exact as long as nobody outside of the session (a server, a user) wakes a rank up;
// which is why the session has to be quiet for a while.
//
// Quiet is what the kernel says of every thread of every process of a rank, several
// times in a row, while neither a record nor a clock moved, nobody began to wait, and
// next to no CPU time was used. A thread that has been woken but has not got a core yet
// is not quiet, so a loaded machine changes nothing; neither is one that a debugger
// holds. Threads that wait in slices (a data loader's workers) run for a moment again
// and again: a look that finds one running decides nothing, and the next one continues.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WATCH_QUIET_WATCH_H_
#define VRANK_EMULATOR_WATCH_QUIET_WATCH_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "emulator/connect/guest_link.h"
#include "emulator/watch/thread_watch.h"

namespace vrank::emulator {

class QuietWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // CPU time in ns that all threads of a process and of its descendants have used;
  // nullopt where one does not wait.
  using CpuOfWaiters = std::function<std::optional<uint64_t>(pid_t)>;
  explicit QuietWatch(CpuOfWaiters cpu_of_waiters)
      : cpu_of_waiters_(std::move(cpu_of_waiters)) {}
  // `threads` outlives it.
  explicit QuietWatch(ThreadWatch* threads);

  // Looks at all processes of these ranks. Returns for how long they have been quiet by
  // now; zero where they are not, or have not been looked at often enough.
  std::chrono::milliseconds Look(Clock::time_point now,
                                 const std::vector<const GuestLink*>& links);
  // Something moved.
  void Moved() { samples_ = 0; }
  // The next looks should come soon.
  bool watching() const { return samples_ > 0; }

 private:
  // The CPU time of all threads; nullopt where one does not wait.
  std::optional<uint64_t> CpuOf(const std::vector<const GuestLink*>& links) const;

  CpuOfWaiters cpu_of_waiters_;
  int samples_ = 0;  // successive quiet ones, but for looks that found a thread running
  Clock::time_point since_, last_;  // the first and the last of them
  bool skipped_ = false;            // there was such a look
  uint64_t cpu_ns_ = 0;             // at the first of them
  std::vector<int64_t> progress_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_QUIET_WATCH_H_
