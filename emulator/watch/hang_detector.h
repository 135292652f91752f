// Notices a rank that sits where vrank cannot see it: in a socket, a file, a lock.
//
// A rank that computes is fine however long it takes, and so is one that a debugger has
// stopped: both end by themselves or by their user. Meanwhile no other rank hangs
// either, since it may wait for that one. A rank that uses no CPU, waits for nothing
// that the emulator could give, and for which nothing else moves, is named after a
// while of real time; so is one that only seems to compute (spin_detector.h). Virtual
// time never depends on any of this.
//
// Thread rule: one thread. Reads /proc.

#ifndef VRANK_EMULATOR_WATCH_HANG_DETECTOR_H_
#define VRANK_EMULATOR_WATCH_HANG_DETECTOR_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace vrank::emulator {

// What /proc/PID/stat says of a process.
struct ProcessActivity {
  bool stopped = false;   // by a signal or a debugger: at least one of its threads
  bool runnable = false;  // running, or in the kernel waiting for a disk
  int64_t cpu_ms = 0;     // used so far, children that were waited for included
};
// nullopt where there is no such process.
std::optional<ProcessActivity> LookAtProcess(pid_t pid);

class HangDetector {
 public:
  using Clock = std::chrono::steady_clock;

  // Zero: no rank hangs.
  explicit HangDetector(std::chrono::milliseconds limit) : limit_(limit) {}

  // Something moved: all waiting starts anew.
  void Moved() { quiet_.reset(); }

  struct Candidate {
    int32_t rank;
    // Its processes: a shell that waits for what it has started does nothing itself.
    // What those have started counts, too.
    std::vector<pid_t> pids;
    bool spins = false;  // it runs, but that counts as doing nothing
    // Its virtual clock. One that moves without a call is that of a rank which sleeps
    // again and again, and wakes up to look at something.
    int64_t clock_ns = 0;
  };
  struct Finding {
    int32_t rank;
    enum class Kind {
      kStopped,  // told once per stop, after kStop or the limit
      kIdle,     // it hangs
      kSleeps,   // it hangs, and sleeps again and again
      kSpins,    // it hangs, too
    } kind;
  };
  // Where no candidate has done anything for the limit: the first that spins, or else
  // the first.
  std::optional<Finding> Look(Clock::time_point now,
                              const std::vector<Candidate>& candidates);
  // Whether the last Look saw a stopped candidate.
  bool any_stopped() const { return !stopped_.empty(); }

 private:
  struct Stop {
    Clock::time_point since;
    bool told = false;
  };
  // Keeps stopped_; the first rank in it that is to be told about.
  std::optional<Finding> LookForStops(Clock::time_point now,
                                      const std::vector<Candidate>& candidates,
                                      const std::vector<ProcessActivity>& activities);

  struct Before {
    int64_t cpu_ms = 0;
    std::vector<pid_t> pids;
    int64_t clock_ns = 0;
    int looks = 0, runnable = 0;  // since then; in how many of them it could run
  };
  struct Quiet {
    Clock::time_point since;
    std::map<int32_t, Before> ranks;  // what they had used by then
  };
  // Whether the candidate does something.
  bool IsActive(const Candidate& candidate, const ProcessActivity& activity,
                std::chrono::milliseconds waited);
  std::chrono::milliseconds limit_;
  std::optional<Quiet> quiet_;       // since when nobody does anything
  std::map<int32_t, Stop> stopped_;  // by rank
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_HANG_DETECTOR_H_
