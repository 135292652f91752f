#include "emulator/watch/quiet_watch.h"

#include <algorithm>
#include <utility>

namespace vrank::emulator {

using std::chrono::milliseconds;

namespace {
constexpr int kSamples = 5;
// Of a core, per rank: what threads may use that wait in slices. Threads that hand work
// to and fro can each be seen to wait, one after the other; but they use far more.
constexpr double kIdleCpu = 0.25;
// ... and where some of them were seen to run: 250 wake-ups a second of 40 us are 1 %.
constexpr double kTickingCpu = 0.05;
// Looks may find some thread running for so long. A thread with work to do that gets no
// core takes longer.
constexpr milliseconds kLongestTick{200};
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
  const bool moved = progress != progress_ || runs;
  progress_ = std::move(progress);
  if (moved) {
    samples_ = 0;
    return milliseconds(0);
  }
  const std::optional<uint64_t> cpu_ns = CpuOf(links);
  if (!cpu_ns.has_value()) {
    skipped_ = true;
    if (now - last_ > kLongestTick)
      samples_ = 0;
    return milliseconds(0);
  }
  const double allowed_ns =
      (skipped_ ? kTickingCpu : kIdleCpu) * static_cast<double>(links.size()) *
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
  return samples_ < kSamples ? milliseconds(0)
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

milliseconds QuietWatch::PatienceFor(int64_t wait_ns) {
  return std::clamp(milliseconds(wait_ns / 10'000'000), milliseconds(40),
                    milliseconds(5000));
}

}  // namespace vrank::emulator
