#include "tools/job/host_time_recording.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "tools/job/program_fingerprint.h"

namespace vrank::tools {

namespace {

// Of the CPU time in gaps, by iteration: the mean over the real ranks. Iterations whose
// ends lie between no batches of gaps are left out.
std::vector<int64_t> IterationTimes(const emulator::World& world) {
  std::vector<std::vector<int64_t>> by_rank;
  size_t common = SIZE_MAX;
  for (const auto& rank : world.real()) {
    std::vector<int64_t>& times = by_rank.emplace_back();
    for (const auto& iteration :
         rank->iteration_log().Find(graph::IterationSearch::kActions).iterations)
      if (const auto ns = rank->gap_time().Between(iteration.bounds.first_op,
                                                   iteration.bounds.last_op))
        times.push_back(*ns);
    common = std::min(common, times.size());
  }
  std::vector<int64_t> means(by_rank.empty() ? 0 : common, 0);
  for (size_t i = 0; i < means.size(); ++i) {
    for (const std::vector<int64_t>& times : by_rank)
      means[i] += times[i];
    means[i] /= static_cast<int64_t>(by_rank.size());
  }
  return means;
}

}  // namespace

HostTimeRecording::HostTimeRecording(std::string path, std::vector<std::string> command)
    : path_(std::move(path)), command_(std::move(command)) {}

absl::Status HostTimeRecording::Save(
    const emulator::World& world,
    const std::function<void(const std::string&)>& on_note) const {
  emulator::HostTimes times = recorder_.Collected();
  if (times.gaps.empty())
    return absl::FailedPreconditionError(
        fmt::format("--record-host-time {}: no thread that issues work made two calls "
                    "in a row; nothing was recorded",
                    path_));
  times.cpu = emulator::CpuModel();
  ASSIGN_OR_RETURN(times.program, ProgramFingerprint(command_));
  const emulator::CoreTimes now = emulator::ReadCoreTimes();
  times.runs.front().stolen_ms = now.stolen_ms - at_begin_.stolen_ms;
  times.runs.front().cores_ms = now.total_ms - at_begin_.total_ms;
  times.runs.front().iteration_ns = IterationTimes(world);
  RETURN_IF_ERROR(times.Save(path_));
  if (const auto how = emulator::HowBusy(times); how.has_value() && on_note)
    on_note(
        fmt::format("--record-host-time {}: the machine was busy: {}; who plays it "
                    "has to say --force-host-time: record it again on a quiet one",
                    path_, *how));
  return absl::OkStatus();
}

}  // namespace vrank::tools
