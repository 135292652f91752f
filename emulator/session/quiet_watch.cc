#include "emulator/session/quiet_watch.h"

#include <algorithm>
#include <utility>

#include "emulator/session/process_sample.h"

namespace vrank::emulator {

using std::chrono::milliseconds;

namespace {
constexpr int kSamples = 5;
}  // namespace

milliseconds QuietWatch::Look(Clock::time_point now,
                              const std::vector<const GuestLink*>& links) {
  std::vector<int64_t> progress;
  for (const GuestLink* link : links) {
    progress.push_back(link->host_now_ns());
    progress.push_back(static_cast<int64_t>(link->bytes_written()));
  }
  bool quiet = progress == progress_;
  progress_ = std::move(progress);
  for (const GuestLink* link : links) {
    for (const pid_t pid : link->pids()) {
      if (!quiet)
        break;
      const auto sample = SampleProcess(pid);
      quiet = !sample.has_value() || sample->idle;
    }
  }
  if (!quiet) {
    samples_ = 0;
    return milliseconds(0);
  }
  if (samples_++ == 0)
    since_ = now;
  return samples_ < kSamples ? milliseconds(0)
                             : std::chrono::duration_cast<milliseconds>(now - since_);
}

milliseconds QuietWatch::PatienceFor(int64_t wait_ns) {
  return std::clamp(milliseconds(wait_ns / 10'000'000), milliseconds(40),
                    milliseconds(5000));
}

}  // namespace vrank::emulator
