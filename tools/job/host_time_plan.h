// What takes host time between a program's calls, as --host-time and its like say.
//
// Thread rule: reads files, keeps no state.

#ifndef VRANK_TOOLS_JOB_HOST_TIME_PLAN_H_
#define VRANK_TOOLS_JOB_HOST_TIME_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "base/guest/protocol.h"
#include "emulator/host_time/host_times.h"
#include "tools/job/job_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace vrank::tools {

// --host-time and what goes with it.
void AddHostTimeFlags(CLI::App* app, JobFlags* flags);
// --record-host-time, of commands that run a job once.
void AddHostTimeRecordingFlag(CLI::App* app, JobFlags* flags);
// What does not go together.
absl::Status CheckHostTimeFlags(const JobFlags& flags);

// Files that --host-time names; none where it is a mode.
std::vector<std::string> HostTimeFiles(const JobFlags& flags);

struct HostTimePlan {
  protocol::HostTime mode = protocol::HostTime::kModelled;
  uint64_t speed_millionths = 1'000'000;
  std::string cpu;  // that was recorded on
  // What is played: medians, as long as they take at that speed.
  std::vector<protocol::RecordedGap> gaps;
};
// REQUIRES: CheckHostTimeFlags is OK.
absl::StatusOr<HostTimePlan> PlanHostTime(const JobFlags& flags);

// What the guests are told of it. Looks at this machine where gaps are metered.
void Tell(const HostTimePlan& plan, bool records, protocol::Settings* settings);

}  // namespace vrank::tools

#endif  // VRANK_TOOLS_JOB_HOST_TIME_PLAN_H_
