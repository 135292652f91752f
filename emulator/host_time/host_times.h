// What a program computed between its calls in one run or several, by what came before:
// the contents of a .vhost file.
//
// Thread rule: plain values; files are read and written by one thread.

#ifndef VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_
#define VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"

namespace vrank::emulator {

// Of gaps that end at anchors of one kind.
struct GapEnd {
  int64_t mean_ns = 0;  // RecurringMean
  uint64_t count = 0;
  friend bool operator==(const GapEnd&, const GapEnd&) = default;
};

// Of the gaps with one key (base/guest/anchor_history.h).
struct GapEstimate {
  uint32_t depth = 0;
  int64_t p10_ns = 0, median_ns = 0, p90_ns = 0;
  int64_t mean_ns = 0;  // RecurringMean
  uint64_t count = 0;
  std::map<uint64_t, GapEnd> ends = {};  // by the kind of the anchor (kAnchorKind)
  friend bool operator==(const GapEstimate&, const GapEstimate&) = default;
};
// p10, median and p90, of values in any order; no mean. REQUIRES: some.
GapEstimate Estimate(std::vector<int64_t> values, uint32_t depth);

// The mean of what comes again: each of `values`, in the order of their time, counts at
// most as the largest of the other half. One key may stand for several places of the
// program, of which few are long, and a median would leave those out; what comes
// again is in both halves, a module that is loaded once in one. REQUIRES: some.
int64_t RecurringMean(const std::vector<int64_t>& values);

// A run that was recorded. How quiet the machine was: load is in the CPU time itself
// (caches, cores that share their units), and nothing in the gaps alone tells.
struct RecordedRun {
  uint64_t gaps = 0;
  int64_t cpu_ns = 0;
  uint64_t preempted = 0;  // involuntary switches of the threads
  int64_t stolen_ms = 0, cores_ms = 0;
  // CPU time in the gaps of each iteration, a mean over the ranks that were recorded;
  // empty where no iteration was found.
  std::vector<int64_t> iteration_ns;
  friend bool operator==(const RecordedRun&, const RecordedRun&) = default;

  double PreemptedPerSecond() const;  // of CPU time in gaps
  double StolenShare() const;
};

struct HostTimes {
  std::string cpu, program;
  std::vector<RecordedRun> runs;
  std::map<uint64_t, GapEstimate> gaps;  // by key
  friend bool operator==(const HostTimes&, const HostTimes&) = default;

  static absl::StatusOr<HostTimes> Load(const std::string& path);
  absl::Status Save(const std::string& path) const;
  // What ranks on a host that is `speed_millionths` / 10^6 times as fast play: what a
  // gap takes wherever it ends passes where it begins.
  std::vector<protocol::RecordedGap> Played(uint64_t speed_millionths) const;
  // Adds another recording, of the same program and CPU: estimates are averaged by how
  // many gaps they are of.
  absl::Status Merge(const HostTimes& other);
};

// By how much a run was recorded on a busy machine; nullopt where none was.
std::optional<std::string> HowBusy(const HostTimes& times);
// The same as an error, for a command that is about to play the recording.
absl::Status CheckQuiet(const HostTimes& times);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_
