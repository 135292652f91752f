#include "emulator/session/quiet_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "emulator/session/process_sample.h"

namespace vrank::emulator {

using std::chrono::milliseconds;

namespace {
constexpr int kSamples = 5;
// Of a core, per rank: what threads may use that wait in slices. Threads that hand work
// to and fro can each be seen to wait, one after the other; but they use far more.
constexpr double kIdleCpu = 0.25;
}  // namespace

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
  bool quiet = progress == progress_ && !runs;
  progress_ = std::move(progress);
  uint64_t cpu_ns = 0;
  for (const GuestLink* link : links) {
    for (const pid_t pid : link->pids()) {
      if (!quiet)
        break;
      const std::optional<uint64_t> of_process = CpuOfWaiters(pid);
      quiet = of_process.has_value();
      cpu_ns += of_process.value_or(0);
    }
  }
  const auto allowed_ns =
      kIdleCpu * static_cast<double>(links.size()) *
      std::chrono::duration<double, std::nano>(now - since_).count();
  if (samples_ > 0 &&
      (cpu_ns < cpu_ns_ || static_cast<double>(cpu_ns - cpu_ns_) > allowed_ns))
    quiet = false;
  if (!quiet) {
    samples_ = 0;
    return milliseconds(0);
  }
  if (samples_++ == 0) {
    since_ = now;
    cpu_ns_ = cpu_ns;
  }
  return samples_ < kSamples ? milliseconds(0)
                             : std::chrono::duration_cast<milliseconds>(now - since_);
}

milliseconds QuietWatch::PatienceFor(int64_t wait_ns) {
  return std::clamp(milliseconds(wait_ns / 10'000'000), milliseconds(40),
                    milliseconds(5000));
}

}  // namespace vrank::emulator
