// Notices a rank that runs for ever and does nothing.
//
// A program may wait for its GPU without a call, by reading host memory that a kernel
// would have written. Without a GPU nobody writes there. Such a rank is busy, but asks
// and issues nothing, touches no new memory, and reads and writes no file. So does a
// loop that only computes, which is why it is first named, after a while of CPU time,
// and counts as hung after kSpinLimits times as much. CPU time, not real time: a rank
// may have to share its core, and a debugger may hold it as long as it likes. Virtual
// time never depends on any of this.
//
// Thread rule: one thread. Reads /proc.

#ifndef VRANK_EMULATOR_WATCH_SPIN_DETECTOR_H_
#define VRANK_EMULATOR_WATCH_SPIN_DETECTOR_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "emulator/watch/process_sample.h"

namespace vrank::emulator {

class SpinDetector {
 public:
  // Zero: never.
  explicit SpinDetector(std::chrono::milliseconds limit) : limit_(limit) {}

  // All spinning starts anew: somebody is stopped, and others may wait for it this way.
  void Restart() {
    starts_.clear();
    hanging_.clear();
  }

  struct Candidate {
    int32_t rank;
    std::vector<pid_t> pids;  // its processes
    uint64_t bytes_written;   // into its ring, so far
  };
  struct Spin {
    int32_t rank;
    pid_t pid;                      // the process of it that has used most
    std::chrono::milliseconds cpu;  // used by all of them since it began to spin
  };
  // The first candidate that has been spinning for the limit; each spin is told once.
  std::optional<Spin> Look(const std::vector<Candidate>& candidates);
  // Those of the last Look that have been spinning for kSpinLimits limits, by rank.
  const std::map<int32_t, Spin>& hanging() const { return hanging_; }

 private:
  struct Start {
    uint64_t bytes_written = 0;
    std::map<pid_t, ProcessSample> samples;
    bool told = false;
  };
  // What a rank has used since `start`; nullopt where it has done something, too.
  std::optional<Spin> UsedSince(const Start& start, const Start& now,
                                int32_t rank) const;

  std::chrono::milliseconds limit_;
  std::map<int32_t, Start> starts_;  // by rank: since when it has done nothing but run
  std::map<int32_t, Spin> hanging_;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WATCH_SPIN_DETECTOR_H_
