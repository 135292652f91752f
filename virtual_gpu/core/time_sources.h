// Who vouches for the times that a profiler is told of: a trace of a virtual run has
// none of a GPU, and what reads it later has to know.
//
// Thread rule: one thread at a time.

#ifndef VRANK_VIRTUAL_GPU_CORE_TIME_SOURCES_H_
#define VRANK_VIRTUAL_GPU_CORE_TIME_SOURCES_H_

#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "base/guest/protocol.h"
#include "virtual_gpu/core/activity.h"

namespace vrank::gpu {

class TimeSources {
 public:
  // The host has spent so much on its own, not waiting.
  void AddHost(protocol::TimeSource source, int64_t ns);
  void AddWork(const ActivityWork& work, protocol::TimeSource source);

  // {"times": "virtual", "host_ns": {SOURCE: nanoseconds, ...}, "work": {SOURCE:
  // [names], ...}}. Names are of kernels, demangled as torch.profiler does it, and
  // "Memcpy" and "Memset"; one can be in several lists.
  std::string Json() const;

 private:
  std::array<int64_t, protocol::kTimeSources> host_ns_{};
  // Texts live as long as the process.
  std::array<std::unordered_set<const char*>, protocol::kTimeSources> work_;
};

}  // namespace vrank::gpu

#endif  // VRANK_VIRTUAL_GPU_CORE_TIME_SOURCES_H_
