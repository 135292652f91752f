#include "emulator/session/hang_detector.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "emulator/session/process_sample.h"

namespace vrank::emulator {

namespace {

std::optional<ProcessActivity> ReadStat(const std::filesystem::path& folder) {
  const std::string text = ReadProcFile(folder / "stat");
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

// The process's own line tells the state of its first thread; a debugger may have
// stopped another one alone.
bool AnyThreadStopped(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator thread(folder / "task", error);
  for (; !error && thread != std::filesystem::directory_iterator();
       thread.increment(error)) {
    const auto activity = ReadStat(thread->path());
    if (activity.has_value() && activity->stopped)
      return true;
  }
  return false;
}

}  // namespace

std::optional<ProcessActivity> LookAtProcess(pid_t pid) {
  const std::filesystem::path folder = fmt::format("/proc/{}", pid);
  auto activity = ReadStat(folder);
  if (activity.has_value() && !activity->stopped)
    activity->stopped = AnyThreadStopped(folder);
  return activity;
}

std::optional<HangDetector::Finding> HangDetector::Look(
    Clock::time_point now, const std::vector<Candidate>& candidates) {
  std::vector<std::optional<ProcessActivity>> activities;
  for (const Candidate& candidate : candidates)
    activities.push_back(LookAtProcess(candidate.pid));
  const std::optional<Finding> stop = LookForStops(now, candidates, activities);
  if (any_stopped()) {
    since_.clear();
    return stop;
  }
  if (limit_.count() == 0)
    return std::nullopt;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto& activity = activities[i];
    const auto [quiet, first] = since_.try_emplace(candidates[i].rank, Quiet{now, 0});
    if (!activity.has_value() || activity->runnable || first) {
      quiet->second = Quiet{now, activity.has_value() ? activity->cpu_ms : 0};
      continue;
    }
    // A few ticks a second are a heartbeat thread; more is work.
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        now - quiet->second.since);
    if (activity->cpu_ms - quiet->second.cpu_ms > 20 + waited.count() / 50)
      quiet->second = Quiet{now, activity->cpu_ms};
    else if (waited >= limit_)
      return Finding{candidates[i].rank, false};
  }
  return std::nullopt;
}

std::optional<HangDetector::Finding> HangDetector::LookForStops(
    Clock::time_point now, const std::vector<Candidate>& candidates,
    const std::vector<std::optional<ProcessActivity>>& activities) {
  std::map<int32_t, Stop> stopped;
  std::optional<Finding> finding;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!activities[i].has_value() || !activities[i]->stopped)
      continue;
    const int32_t rank = candidates[i].rank;
    const auto before = stopped_.find(rank);
    Stop& stop = stopped[rank];
    stop = before == stopped_.end() ? Stop{now} : before->second;
    const auto patience =
        limit_.count() == 0 ? kStopPatience : std::min(limit_, kStopPatience);
    if (finding.has_value() || stop.told || now - stop.since < patience)
      continue;
    stop.told = true;
    finding = Finding{rank, true};
  }
  stopped_ = std::move(stopped);
  return finding;
}

}  // namespace vrank::emulator
