// Whether a change makes the program's own CPU time longer, by recordings of it
// (`--record-host-time`), several before the change and several after it.
//
// CPU time is measured, so it varies, and its distribution is not known. The answer is
// therefore an interval with a confidence, and may be that these recordings cannot
// tell.
//
// What is compared is the CPU time of an iteration: of each recording the median, its
// first iteration left out (libraries that are loaded, first allocations). Where a
// recording has no iterations, it is the CPU time of gaps that repeat in a run: for
// each key what is played times the count.
//
// Thread rule: plain values and pure functions.

#ifndef VRANK_TOOLS_COMPARE_HOST_TIME_COMPARISON_H_
#define VRANK_TOOLS_COMPARE_HOST_TIME_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "emulator/host_time/host_times.h"
#include "tools/compare/comparison_limit.h"

namespace vrank::tools {

struct HostTimeRecordingFile {
  std::string path;
  emulator::HostTimes times;
};

enum class HostTimeVerdict { kSlower, kFaster, kEqual, kCannotTell };
const char* NameOf(HostTimeVerdict verdict);  // "slower", "cannot tell"

struct HostTimeSide {
  size_t recordings = 0;
  int64_t host_ns = 0;      // the median of its recordings
  uint64_t calls = 0;       // that end gaps that repeat; likewise
  uint64_t iterations = 0;  // likewise; 0: one has none
};

struct HostTimeComparison {
  // Of the interval, and of a verdict other than kCannotTell.
  static constexpr double kConfidence = 0.99;
  // Where the interval holds no change but is within this of none, it is kEqual.
  static constexpr double kEqual = 0.03;
  // Iterations besides the first that each recording needs.
  static constexpr size_t kLeastIterations = 4;

  HostTimeSide base, updated;
  bool by_iteration = false;  // host_ns is of an iteration, else of a run
  // Relative changes of host_ns, as 0.05 for 5 %: the estimate and its interval.
  double change = 0, low = 0, high = 0;
  HostTimeVerdict verdict = HostTimeVerdict::kCannotTell;
  bool is_busy = false;  // a recording is of a busy machine: no limit is judged
  std::string why_not;   // where it cannot tell
  // A change that these recordings could not tell from none.
  double resolution() const { return (high - low) / 2; }
};

// Fails where recordings are of several CPUs, too few for the confidence, or so
// different in the calls they make that they are of another program or another number
// of iterations, unless `any_job`.
absl::StatusOr<HostTimeComparison> CompareHostTimes(
    const std::vector<HostTimeRecordingFile>& base,
    const std::vector<HostTimeRecordingFile>& updated, bool any_job);

// What a limit on `host_time` comes to. Only changes in percent can be limited, since a
// recording has no result of its own.
enum class LimitOutcome { kHolds, kBroken, kCannotTell };
absl::StatusOr<LimitOutcome> Judge(const Limit& limit,
                                   const HostTimeComparison& comparison);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_COMPARE_HOST_TIME_COMPARISON_H_
