#include "emulator/watch/quiet_watch.h"

#include <algorithm>
#include <utility>

#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;
using std::chrono::milliseconds;

QuietWatch::QuietWatch(ThreadWatch* threads)
    : cpu_of_waiters_([threads](pid_t pid) -> std::optional<uint64_t> {
        const auto waiters = threads->Look(pid);
        return waiters.has_value() ? std::optional(waiters->cpu_ns) : std::nullopt;
      }) {}

milliseconds QuietWatch::Look(Clock::time_point now,
                              const std::vector<const GuestLink*>& links) {
  std::vector<int64_t> progress;
  bool runs = false;
  for (const GuestLink* link : links) {
    // One that has no process yet is about to run.
    runs |= link->LooksAgainSoon() || link->pids().empty();
    progress.push_back(link->host_now_ns());
    progress.push_back(static_cast<int64_t>(link->bytes_written()));
    // Whoever has just begun to wait ran until then.
    const auto limit = link->EarliestLimit();
    progress.push_back(limit.has_value() ? limit->ns : 0);
    progress.push_back(limit.has_value() ? limit->ticket : 0);
  }
  const bool moved = progress != progress_ || runs;
  progress_ = std::move(progress);
  if (moved) {
    samples_ = 0;
    return milliseconds(0);
  }
  const std::optional<uint64_t> cpu_ns = CpuOf(links);
  if (!cpu_ns.has_value()) {
    skipped_ = true;
    if (now - last_ > Milliseconds(schedule::kLongestTick))
      samples_ = 0;
    return milliseconds(0);
  }
  const double allowed_ns =
      (skipped_ ? schedule::kTickingCpu : schedule::kIdleCpu) *
      static_cast<double>(links.size()) *
      std::chrono::duration<double, std::nano>(now - since_).count();
  if (samples_ > 0 &&
      (*cpu_ns < cpu_ns_ || static_cast<double>(*cpu_ns - cpu_ns_) > allowed_ns))
    samples_ = 0;
  last_ = now;
  if (samples_++ == 0) {
    since_ = now;
    cpu_ns_ = *cpu_ns;
    skipped_ = false;
  }
  return samples_ < schedule::kQuietLooks
             ? milliseconds(0)
             : std::chrono::duration_cast<milliseconds>(now - since_);
}

std::optional<uint64_t> QuietWatch::CpuOf(
    const std::vector<const GuestLink*>& links) const {
  uint64_t cpu_ns = 0;
  for (const GuestLink* link : links) {
    for (const pid_t pid : link->pids()) {
      const std::optional<uint64_t> of_process = cpu_of_waiters_(pid);
      if (!of_process.has_value())
        return std::nullopt;
      cpu_ns += *of_process;
    }
  }
  return cpu_ns;
}

}  // namespace vrank::emulator
