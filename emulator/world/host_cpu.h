// CPU time that the process of a real rank uses, by op of its program: what the host of
// the job does between its calls takes no virtual time, and this says how much there is
// of it. The stand-ins' own time is in it, in place of that of NVIDIA's libraries.
//
// Unlike all else of a result it is of this machine, and differs from run to run.
//
// Memory: 16 bytes a sample, at most kMostSamples.
//
// Thread rule: one thread (the session's).

#ifndef VRANK_EMULATOR_WORLD_HOST_CPU_H_
#define VRANK_EMULATOR_WORLD_HOST_CPU_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vrank::emulator {

class HostCpu {
 public:
  static constexpr size_t kMostSamples = size_t{1} << 16;

  // The process waits for the answer to `op`: reads its CPU clock, of which
  // `gpu_work_ns` went into kernels that were interpreted, and are not the program's.
  void Sample(uint64_t op, pid_t pid, int64_t gpu_work_ns);
  // `cpu_ns` of all threads, user and system, once `op` was issued. Ops ascend.
  void Add(uint64_t op, int64_t cpu_ns);

  // What was used from the issue of one op to that of another, in ns, interpolated
  // between samples by op. nullopt where none lies between them, as far before the
  // first one, or behind the last one. Where few ops lie between them, from the last
  // sample before the first one to the last sample: from wait to wait.
  std::optional<int64_t> Between(uint64_t first_op, uint64_t last_op) const;
  // Of its child processes so far, those that have ended included.
  int64_t children_ns() const { return children_ns_; }

 private:
  struct Point {
    uint64_t op = 0;
    int64_t cpu_ns = 0;
  };
  std::optional<int64_t> At(uint64_t op) const;
  const Point* LastUntil(uint64_t op) const;  // nullptr: there is none

  std::vector<Point> points_;
  uint64_t seen_ = 0, stride_ = 1;  // every stride-th sample is kept
  std::chrono::steady_clock::time_point last_look_at_children_;
  int64_t children_ns_ = 0;
};

}  // namespace vrank::emulator

#endif  // VRANK_EMULATOR_WORLD_HOST_CPU_H_
