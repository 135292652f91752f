// Notices a rank that polls memory for ever.
//
// A program may wait for its GPU without a call, by reading host memory that a kernel
// would have written. Without a GPU nobody writes there. Such a rank is busy, but asks
// and issues nothing, touches no new memory, and reads and writes no file. So does a
// loop that only computes, which is why it is named, after a while of CPU time, and
// nothing more. Virtual time never depends on any of this.
//
// Thread rule: one thread. Reads /proc.

#ifndef VRANK_EMULATOR_SESSION_SPIN_DETECTOR_H_
#define VRANK_EMULATOR_SESSION_SPIN_DETECTOR_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "emulator/session/process_sample.h"

namespace vrank::emulator {

class SpinDetector {
 public:
  // Zero: never.
  explicit SpinDetector(std::chrono::milliseconds limit) : limit_(limit) {}

  struct Candidate {
    int32_t rank;
    pid_t pid;               // the process that issues its work
    uint64_t bytes_written;  // into its ring, so far
  };
  // The first candidate that has been spinning for the limit; each spin is told once.
  std::optional<int32_t> Look(const std::vector<Candidate>& candidates);

 private:
  struct Start {
    uint64_t bytes_written = 0;
    ProcessSample sample;
    bool told = false;
  };
  std::chrono::milliseconds limit_;
  std::map<int32_t, Start> starts_;  // by rank: since when it has done nothing but run
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_SESSION_SPIN_DETECTOR_H_
