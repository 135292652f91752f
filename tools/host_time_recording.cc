#include "tools/host_time_recording.h"

#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "tools/program_fingerprint.h"

namespace vrank::tools {

HostTimeRecording::HostTimeRecording(std::string path, std::vector<std::string> command)
    : path_(std::move(path)), command_(std::move(command)) {}

absl::Status HostTimeRecording::Save() const {
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
  return times.Save(path_);
}

}  // namespace vrank::tools
