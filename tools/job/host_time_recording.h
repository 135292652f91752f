// The recording of a run's host times (--record-host-time).
//
// Thread rule: one thread.

#ifndef VRANK_TOOLS_JOB_HOST_TIME_RECORDING_H_
#define VRANK_TOOLS_JOB_HOST_TIME_RECORDING_H_

#include <functional>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "emulator/host_time/gap_recorder.h"
#include "emulator/host_time/machine.h"
#include "emulator/world/world.h"

namespace vrank::tools {

class HostTimeRecording {
 public:
  // Goes to `path`. `command`: of the ranks.
  HostTimeRecording(std::string path, std::vector<std::string> command);

  emulator::GapRecorder* recorder() { return &recorder_; }
  // The ranks start now: the machine's load counts from here on.
  void Begin() { at_begin_ = emulator::ReadCoreTimes(); }
  // A note where the machine was busy, so that the recording will be refused.
  absl::Status Save(const emulator::World& world,
                    const std::function<void(const std::string&)>& on_note) const;

 private:
  const std::string path_;
  const std::vector<std::string> command_;
  emulator::GapRecorder recorder_;
  emulator::CoreTimes at_begin_;
};

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_HOST_TIME_RECORDING_H_
