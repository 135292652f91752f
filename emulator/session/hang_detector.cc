#include "emulator/session/hang_detector.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>

namespace vrank::emulator {

std::optional<ProcessActivity> LookAtProcess(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text((std::istreambuf_iterator<char>(file)),
                         std::istreambuf_iterator<char>());
  // The name in parentheses may hold anything; what follows the last one is regular:
  // state, then numbers. utime, stime, cutime and cstime are fields 14 to 17 of
  // proc(5).
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos)
    return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  for (int field = 4; field < 14; ++field)
    fields >> skipped;
  int64_t ticks = 0;
  for (int field = 14; field <= 17; ++field) {
    int64_t value = 0;
    fields >> value;
    ticks += value;
  }
  if (!fields)
    return std::nullopt;
  ProcessActivity activity;
  activity.stopped = state == "T" || state == "t";
  activity.runnable = state == "R" || state == "D";
  activity.cpu_ms = ticks * 1000 / sysconf(_SC_CLK_TCK);
  return activity;
}

std::optional<int32_t> HangDetector::Look(Clock::time_point now,
                                          const std::vector<Candidate>& candidates) {
  if (limit_.count() == 0)
    return std::nullopt;
  for (const Candidate& candidate : candidates) {
    const auto activity = LookAtProcess(candidate.pid);
    const auto [quiet, first] = since_.try_emplace(candidate.rank, Quiet{now, 0});
    if (!activity.has_value() || activity->stopped || activity->runnable || first) {
      quiet->second = Quiet{now, activity.has_value() ? activity->cpu_ms : 0};
      continue;
    }
    // A few ticks a second are a heartbeat thread; more is work.
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        now - quiet->second.since);
    if (activity->cpu_ms - quiet->second.cpu_ms > 20 + waited.count() / 50)
      quiet->second = Quiet{now, activity->cpu_ms};
    else if (waited >= limit_)
      return candidate.rank;
  }
  return std::nullopt;
}

}  // namespace vrank::emulator
