#include "emulator/watch/hang_detector.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "emulator/watch/process_sample.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;

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

namespace {

// The processes, and what they have started that does not load vrank's libraries (a
// static binary, a launcher's helper). No debugger holds those.
ProcessActivity LookAtAll(const std::vector<pid_t>& pids) {
  ProcessActivity all;
  const std::set<pid_t> own(pids.begin(), pids.end());
  std::set<pid_t> seen = own;
  std::vector<pid_t> left(seen.begin(), seen.end());
  while (!left.empty()) {
    const pid_t pid = left.back();
    left.pop_back();
    const auto activity = LookAtProcess(pid);
    if (!activity.has_value())
      continue;
    all.stopped |= activity->stopped && own.contains(pid);
    all.runnable |= activity->runnable;
    all.cpu_ms += activity->cpu_ms;
    for (const pid_t child : ChildrenOf(pid))
      if (seen.insert(child).second)
        left.push_back(child);
  }
  return all;
}

}  // namespace

std::optional<HangDetector::Finding> HangDetector::Look(
    Clock::time_point now, const std::vector<Candidate>& candidates) {
  std::vector<ProcessActivity> activities;
  for (const Candidate& candidate : candidates)
    activities.push_back(LookAtAll(candidate.pids));
  const std::optional<Finding> stop = LookForStops(now, candidates, activities);
  if (any_stopped()) {
    quiet_.reset();
    return stop;
  }
  if (limit_.count() == 0 || candidates.empty())
    return std::nullopt;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      quiet_.has_value() ? now - quiet_->since : Clock::duration(0));
  bool active = !quiet_.has_value();
  for (size_t i = 0; i < candidates.size() && !active; ++i)
    active = IsActive(candidates[i], activities[i], waited);
  if (active) {
    quiet_ = Quiet{now, {}};
    for (size_t i = 0; i < candidates.size(); ++i)
      quiet_->ranks[candidates[i].rank] = {activities[i].cpu_ms, candidates[i].pids,
                                           candidates[i].clock_ns, 0, 0};
    return std::nullopt;
  }
  if (waited < limit_)
    return std::nullopt;
  for (const Candidate& candidate : candidates)
    if (candidate.spins)
      return Finding{candidate.rank, Finding::Kind::kSpins};
  const Candidate& first = candidates[0];
  return Finding{first.rank, first.clock_ns != quiet_->ranks[first.rank].clock_ns
                                 ? Finding::Kind::kSleeps
                                 : Finding::Kind::kIdle};
}

bool HangDetector::IsActive(const Candidate& candidate, const ProcessActivity& activity,
                            std::chrono::milliseconds waited) {
  if (candidate.spins)
    return false;
  const auto found = quiet_->ranks.find(candidate.rank);
  // Processes that come and go are at work, though each be too short to be seen.
  if (found == quiet_->ranks.end() || found->second.pids != candidate.pids)
    return true;
  Before& before = found->second;
  const int64_t used_ms = activity.cpu_ms - before.cpu_ms;
  ++before.looks;
  before.runnable += activity.runnable ? 1 : 0;
  // A sleep takes a millisecond of real time at most: one after the other take some CPU
  // time, and may be seen to run. Where cores are scarce, work takes no more CPU time,
  // but is seen to want to run.
  if (candidate.clock_ns != before.clock_ns)
    return used_ms > 20 + waited.count() / 4 ||
           (before.looks >= schedule::kHangLooks && before.runnable * 4 > before.looks);
  // A few ticks a second are a heartbeat thread; more is work.
  return activity.runnable || used_ms > 20 + waited.count() / 50;
}

std::optional<HangDetector::Finding> HangDetector::LookForStops(
    Clock::time_point now, const std::vector<Candidate>& candidates,
    const std::vector<ProcessActivity>& activities) {
  std::map<int32_t, Stop> stopped;
  std::optional<Finding> finding;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!activities[i].stopped)
      continue;
    const int32_t rank = candidates[i].rank;
    const auto before = stopped_.find(rank);
    Stop& stop = stopped[rank];
    stop = before == stopped_.end() ? Stop{now} : before->second;
    const auto patience = limit_.count() == 0
                              ? Milliseconds(schedule::kStop)
                              : std::min(limit_, Milliseconds(schedule::kStop));
    if (finding.has_value() || stop.told || now - stop.since < patience)
      continue;
    stop.told = true;
    finding = Finding{rank, Finding::Kind::kStopped};
  }
  stopped_ = std::move(stopped);
  return finding;
}

}  // namespace vrank::emulator
