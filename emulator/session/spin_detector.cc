#include "emulator/session/spin_detector.h"

namespace vrank::emulator {
namespace {

// A heartbeat thread may do a little beside the one that spins.
constexpr uint64_t kFewFaults = 64;
constexpr uint64_t kFewCalls = 64;

}  // namespace

std::optional<int32_t> SpinDetector::Look(const std::vector<Candidate>& candidates) {
  if (limit_.count() == 0)
    return std::nullopt;
  std::map<int32_t, Start> starts;
  std::optional<int32_t> found;
  for (const Candidate& candidate : candidates) {
    const auto sample = SampleProcess(candidate.pid);
    if (!sample.has_value())
      continue;
    const auto before = starts_.find(candidate.rank);
    const Start fresh{candidate.bytes_written, *sample};
    Start& start = starts[candidate.rank] =
        before == starts_.end() ? fresh : before->second;
    const bool does_nothing =
        candidate.bytes_written == start.bytes_written &&
        sample->page_faults - start.sample.page_faults <= kFewFaults &&
        sample->file_calls - start.sample.file_calls <= kFewCalls;
    if (!does_nothing)
      start = fresh;
    // CPU time: it may have to share its core with the others.
    else if (!found.has_value() && !start.told &&
             sample->cpu_ms - start.sample.cpu_ms >= limit_.count()) {
      start.told = true;
      found = candidate.rank;
    }
  }
  starts_ = std::move(starts);
  return found;
}

}  // namespace vrank::emulator
