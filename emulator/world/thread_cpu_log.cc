#include "emulator/world/thread_cpu_log.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

// Samples that span an iteration need not begin at one of its ends.
constexpr double kAnIteration = 0.99;

// What a loader prepares in advance after the first iteration, by worker.
constexpr double kAhead = 1;

// The position of an op in iterations: those before it, plus the fraction of its own.
double PlaceOf(uint64_t op, const std::vector<std::pair<uint64_t, uint64_t>>& bounds) {
  const auto next = std::upper_bound(
      bounds.begin(), bounds.end(), op,
      [](uint64_t wanted, const auto& iteration) { return wanted < iteration.first; });
  if (next == bounds.begin())
    return 0;
  const auto& [first, last] = *(next - 1);
  const double share =
      static_cast<double>(op - first) / static_cast<double>(last - first + 1);
  return static_cast<double>(next - 1 - bounds.begin()) + std::min(share, 1.0);
}

}  // namespace

void ThreadCpuLog::Look(uint64_t op, pid_t pid, int64_t program_ns) {
  const auto begin = std::chrono::steady_clock::now();
  if (begin < next_look_)
    return;
  Add(op, CpuOfThreads(pid), program_ns);
  const auto end = std::chrono::steady_clock::now();
  next_look_ = end + std::max<std::chrono::nanoseconds>(
                         schedule::Chrono(schedule::kThreadCpuLook),
                         schedule::kThreadCpuShare * (end - begin));
}

void ThreadCpuLog::Add(uint64_t op, const std::vector<ThreadCpu>& threads,
                       int64_t program_ns) {
  if (seen_++ % stride_ != 0 || (!samples_.empty() && samples_.back().op >= op))
    return;
  Sample& sample = samples_.emplace_back();
  sample.op = op;
  sample.program_ns = program_ns;
  for (const ThreadCpu& thread : threads) {
    threads_[thread.tid] = {thread.in_child, thread.executed, thread.name};
    sample.cpu_ns[thread.tid] = thread.cpu_ns;
  }
  if (samples_.size() < kMostSamples)
    return;
  for (size_t i = 0; 2 * i < samples_.size(); ++i)
    samples_[i] = std::move(samples_[2 * i]);
  samples_.resize(samples_.size() / 2);
  stride_ *= 2;
}

int64_t ThreadCpuLog::Used(pid_t tid, size_t first, size_t last) const {
  std::optional<int64_t> begin, end;
  for (size_t i = first; i <= last; ++i) {
    const auto seen = samples_[i].cpu_ns.find(tid);
    if (seen == samples_[i].cpu_ns.end())
      continue;
    // A thread that started after the first sample worked for these iterations alone,
    // except for the start-up of a newly executed program.
    if (!begin.has_value())
      begin = i == first || threads_.at(tid).executed ? seen->second : 0;
    end = seen->second;
  }
  return begin.has_value() ? *end - *begin : 0;
}

std::vector<ThreadCpuLog::Team> ThreadCpuLog::TeamsOf(size_t first, size_t last,
                                                      double iterations,
                                                      double ahead) const {
  std::map<std::pair<bool, std::string>, std::map<pid_t, int64_t>> by_name;
  Team issuers{.name = {}, .issues = true};
  for (const auto& [tid, thread] : threads_) {
    if (issuers_.count(tid) == 0)
      by_name[{thread.in_child, thread.name}][tid] = Used(tid, first, last);
    else
      ++issuers.threads;
  }
  std::vector<Team> teams;
  if (issuers.threads > 0) {
    const int64_t computed = samples_[last].program_ns - samples_[first].program_ns;
    issuers.cpu_ns = std::llround(static_cast<double>(computed) / iterations);
    teams.push_back(issuers);
  }
  for (auto& [key, used] : by_name) {
    int64_t most = 1, sum = 0;
    for (const auto& [tid, ns] : used)
      most = std::max(most, ns);
    std::erase_if(used, [most](const auto& each) { return 2 * each.second < most; });
    for (const auto& [tid, ns] : used)
      sum += ns;
    ptrdiff_t at_once = 0;
    for (size_t i = first; i <= last; ++i)
      at_once = std::max(
          at_once, std::count_if(used.begin(), used.end(), [&, this](const auto& each) {
            return samples_[i].cpu_ns.count(each.first) != 0;
          }));
    if (at_once == 0)
      continue;
    const auto threads = static_cast<double>(at_once);
    Team& team = teams.emplace_back(Team{.name = key.second, .in_child = key.first});
    team.threads = static_cast<int32_t>(at_once);
    team.cpu_ns = std::llround(static_cast<double>(sum) / threads /
                               (iterations + ahead * threads));
  }
  return teams;
}

std::vector<ThreadCpuLog::Team> ThreadCpuLog::ByIteration(
    const std::vector<std::pair<uint64_t, uint64_t>>& bounds) const {
  if (bounds.empty() || samples_.empty())
    return {};
  std::vector<Team> teams;
  const auto add = [&](size_t iteration, double ahead) {
    size_t first = 0, last = samples_.size() - 1;
    while (first < last && samples_[first].op < bounds[iteration].first)
      ++first;
    // One in the iteration before is closer to its end.
    if (first > 0 && iteration > 0 &&
        samples_[first - 1].op >= bounds[iteration - 1].first)
      --first;
    while (last > first && samples_[last].op > bounds.back().second)
      --last;
    const double iterations =
        PlaceOf(samples_[last].op, bounds) - PlaceOf(samples_[first].op, bounds);
    if (iterations < kAnIteration)
      return;
    for (Team& team : TeamsOf(first, last, iterations, ahead)) {
      const auto same =
          std::find_if(teams.begin(), teams.end(), [&](const Team& other) {
            return other.name == team.name && other.in_child == team.in_child &&
                   other.issues == team.issues;
          });
      if (same == teams.end())
        teams.push_back(std::move(team));
      else if (!team.issues && team.cpu_ns > same->cpu_ns)
        *same = std::move(team);
    }
  };
  add(bounds.size() / 2, 0);
  if (bounds.size() > 1)
    add(1, kAhead);
  std::stable_sort(teams.begin(), teams.end(),
                   [](const Team& a, const Team& b) { return a.cpu_ns > b.cpu_ns; });
  return teams;
}

}  // namespace vrank::emulator
