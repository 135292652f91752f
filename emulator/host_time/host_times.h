// What a program computed between its calls in one run or several, by what came before:
// the contents of a .vhost file.
//
// Thread rule: plain values; files are read and written by one thread.

#ifndef VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_
#define VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace vrank::emulator {

// Of the gaps with one key (base/guest/anchor_history.h).
struct GapEstimate {
  uint32_t depth = 0;
  int64_t p10_ns = 0, median_ns = 0, p90_ns = 0;
  uint64_t count = 0;
  friend bool operator==(const GapEstimate&, const GapEstimate&) = default;
};
// Of values in any order. REQUIRES: some.
GapEstimate Estimate(std::vector<int64_t> values, uint32_t depth);

// How quiet the machine was while a run was recorded: load is in the CPU time itself
// (caches, cores that share their units), and nothing in the gaps alone tells.
struct RunQuality {
  uint64_t gaps = 0;
  int64_t cpu_ns = 0;
  uint64_t preempted = 0;  // involuntary switches of the threads
  int64_t stolen_ms = 0, cores_ms = 0;
  friend bool operator==(const RunQuality&, const RunQuality&) = default;

  double PreemptedPerSecond() const;  // of CPU time in gaps
  double StolenShare() const;
};

struct HostTimes {
  std::string cpu, program;
  std::vector<RunQuality> runs;
  std::map<uint64_t, GapEstimate> gaps;  // by key
  friend bool operator==(const HostTimes&, const HostTimes&) = default;

  static absl::StatusOr<HostTimes> Load(const std::string& path);
  absl::Status Save(const std::string& path) const;
  // Adds another recording, of the same program and CPU: estimates are averaged by how
  // many gaps they are of.
  absl::Status Merge(const HostTimes& other);
};

// An error that says by how much, where a run was recorded on a busy machine.
absl::Status CheckQuiet(const HostTimes& times);

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_HOST_TIME_HOST_TIMES_H_
