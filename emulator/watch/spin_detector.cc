#include "emulator/watch/spin_detector.h"

#include <utility>

#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using std::chrono::milliseconds;

}  // namespace

std::optional<SpinDetector::Spin> SpinDetector::UsedSince(const Start& start,
                                                          const Start& now,
                                                          int32_t rank) const {
  Spin spin{rank, 0, milliseconds(0)};
  if (now.bytes_written != start.bytes_written ||
      now.samples.size() != start.samples.size())
    return std::nullopt;
  uint64_t faults = 0, calls = 0;
  milliseconds most(-1);
  for (const auto& [pid, sample] : now.samples) {
    const auto before = start.samples.find(pid);
    if (before == start.samples.end())
      return std::nullopt;
    faults += sample.page_faults - before->second.page_faults;
    calls += sample.file_calls - before->second.file_calls;
    const milliseconds used(sample.cpu_ms - before->second.cpu_ms);
    spin.cpu += used;
    if (used > most) {
      most = used;
      spin.pid = pid;
    }
  }
  const auto limits = static_cast<uint64_t>(1 + spin.cpu / limit_);
  if (faults > schedule::kFewActs * limits || calls > schedule::kFewActs * limits)
    return std::nullopt;
  return spin;
}

std::optional<SpinDetector::Spin> SpinDetector::Look(
    const std::vector<Candidate>& candidates) {
  if (limit_.count() == 0)
    return std::nullopt;
  std::map<int32_t, Start> starts;
  std::optional<Spin> found;
  hanging_.clear();
  for (const Candidate& candidate : candidates) {
    Start now{candidate.bytes_written, {}, false};
    for (const pid_t pid : candidate.pids)
      if (const auto sample = SampleProcess(pid); sample.has_value())
        now.samples[pid] = *sample;
    const auto before = starts_.find(candidate.rank);
    auto used = before == starts_.end()
                    ? std::nullopt
                    : UsedSince(before->second, now, candidate.rank);
    if (!used.has_value()) {
      starts[candidate.rank] = std::move(now);
      continue;
    }
    Start& start = starts[candidate.rank] = std::move(before->second);
    if (used->cpu >= schedule::kSpinLimits * limit_)
      hanging_.emplace(candidate.rank, *used);
    if (!found.has_value() && !start.told && used->cpu >= limit_) {
      found = used;
      start.told = true;
    }
  }
  starts_ = std::move(starts);
  return found;
}

}  // namespace vrank::emulator
