#include "emulator/world/thread_cpu_log.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

// Samples that span an iteration need not begin at one of its ends.
constexpr double kAnIteration = 0.99;

// Iterations until this op, and the share of the one that it is in.
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

void ThreadCpuLog::Look(uint64_t op, pid_t pid, int64_t gpu_work_ns) {
  const auto begin = std::chrono::steady_clock::now();
  if (begin < next_look_)
    return;
  Add(op, CpuOfThreads(pid), gpu_work_ns);
  const auto end = std::chrono::steady_clock::now();
  next_look_ = end + std::max<std::chrono::nanoseconds>(
                         schedule::Chrono(schedule::kThreadCpuLook),
                         schedule::kThreadCpuShare * (end - begin));
}

void ThreadCpuLog::Add(uint64_t op, const std::vector<ThreadCpu>& threads,
                       int64_t gpu_work_ns) {
  if (seen_++ % stride_ != 0 || (!samples_.empty() && samples_.back().op >= op))
    return;
  Sample& sample = samples_.emplace_back();
  sample.op = op;
  sample.gpu_work_ns = gpu_work_ns;
  for (const ThreadCpu& thread : threads) {
    threads_[thread.tid] = {thread.in_child, thread.name};
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
    end = seen->second;
    if (!begin.has_value())
      begin = end;
  }
  return begin.has_value() ? *end - *begin : 0;
}

std::vector<ThreadCpuLog::Team> ThreadCpuLog::ByIteration(
    const std::vector<std::pair<uint64_t, uint64_t>>& bounds) const {
  if (bounds.empty() || samples_.empty())
    return {};
  const uint64_t first_op = bounds[bounds.size() / 2].first;
  const uint64_t last_op = bounds.back().second;
  size_t first = 0, last = samples_.size() - 1;
  while (first < last && samples_[first].op < first_op)
    ++first;
  while (last > first && samples_[last].op > last_op)
    --last;
  const double iterations =
      PlaceOf(samples_[last].op, bounds) - PlaceOf(samples_[first].op, bounds);
  if (iterations < kAnIteration)
    return {};
  std::map<std::pair<bool, std::string>, std::vector<int64_t>> by_name;
  int64_t issued = samples_[first].gpu_work_ns - samples_[last].gpu_work_ns;
  Team issuers{.name = {}, .issues = true};
  for (const auto& [tid, thread] : threads_) {
    const int64_t used = Used(tid, first, last);
    if (issuers_.count(tid) == 0) {
      by_name[{thread.in_child, thread.name}].push_back(used);
      continue;
    }
    issued += used;
    ++issuers.threads;
  }
  const auto by_iteration = [iterations](int64_t ns) {
    return std::llround(static_cast<double>(ns) / iterations);
  };
  std::vector<Team> teams;
  if (issuers.threads > 0) {
    issuers.cpu_ns = by_iteration(std::max<int64_t>(issued, 0));
    teams.push_back(issuers);
  }
  for (const auto& [key, used] : by_name) {
    Team team{.name = key.second, .in_child = key.first};
    const int64_t most = *std::max_element(used.begin(), used.end());
    int64_t sum = 0;
    for (const int64_t ns : used)
      if (ns > 0 && 2 * ns >= most) {
        ++team.threads;
        sum += ns;
      }
    if (team.threads == 0)
      continue;
    team.cpu_ns = by_iteration(sum / team.threads);
    teams.push_back(std::move(team));
  }
  std::stable_sort(teams.begin(), teams.end(),
                   [](const Team& a, const Team& b) { return a.cpu_ns > b.cpu_ns; });
  return teams;
}

}  // namespace vrank::emulator
