#include "emulator/world/host_cpu.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "emulator/watch/process_sample.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;

namespace {

// Of an iteration with fewer ops they are no measure of time: nearly all of it is spent
// before one of them.
constexpr uint64_t kFewOps = 16;

std::optional<int64_t> CpuOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
    return std::nullopt;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void HostCpu::Sample(uint64_t op, pid_t pid, int64_t gpu_work_ns) {
  if (const std::optional<int64_t> cpu_ns = CpuOf(pid))
    Add(op, *cpu_ns - gpu_work_ns);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_look_at_children_ < Milliseconds(schedule::kChildrenLook))
    return;
  last_look_at_children_ = now;
  children_ns_ = std::max(children_ns_, CpuOfChildren(pid));
}

void HostCpu::Add(uint64_t op, int64_t cpu_ns) {
  if (seen_++ % stride_ != 0 || (!points_.empty() && points_.back().op >= op))
    return;
  points_.push_back({op, cpu_ns});
  if (points_.size() < kMostSamples)
    return;
  for (size_t i = 0; 2 * i < points_.size(); ++i)
    points_[i] = points_[2 * i];
  points_.resize(points_.size() / 2);
  stride_ *= 2;
}

std::optional<int64_t> HostCpu::At(uint64_t op) const {
  const auto after = std::lower_bound(
      points_.begin(), points_.end(), op,
      [](const Point& point, uint64_t wanted) { return point.op < wanted; });
  if (after == points_.end())
    return std::nullopt;
  if (after->op == op)
    return after->cpu_ns;
  if (after == points_.begin())
    return std::nullopt;
  const Point& before = *(after - 1);
  const double share =
      static_cast<double>(op - before.op) / static_cast<double>(after->op - before.op);
  return before.cpu_ns +
         std::llround(share * static_cast<double>(after->cpu_ns - before.cpu_ns));
}

const HostCpu::Point* HostCpu::LastUntil(uint64_t op) const {
  const auto after = std::upper_bound(
      points_.begin(), points_.end(), op,
      [](uint64_t wanted, const Point& point) { return wanted < point.op; });
  return after == points_.begin() ? nullptr : &*(after - 1);
}

std::optional<int64_t> HostCpu::Between(uint64_t first_op, uint64_t last_op) const {
  if (last_op - first_op < kFewOps) {
    const Point *const begin = LastUntil(first_op), *const end = LastUntil(last_op);
    if (begin == nullptr || end == begin || first_op - begin->op >= kFewOps)
      return std::nullopt;
    return end->cpu_ns - begin->cpu_ns;
  }
  // Between samples that are further apart, what was used once (loading code in a first
  // iteration) would count for every op.
  const auto has_sample = [&](uint64_t begin, uint64_t end) {
    const auto point =
        std::lower_bound(points_.begin(), points_.end(), begin,
                         [](const Point& a, uint64_t wanted) { return a.op < wanted; });
    return point != points_.end() && point->op <= end;
  };
  const uint64_t length = last_op - first_op;
  if (!has_sample(first_op - std::min(first_op, length), first_op) ||
      !has_sample(first_op + 1, last_op))
    return std::nullopt;
  const std::optional<int64_t> begin = At(first_op), end = At(last_op);
  if (!begin || !end)
    return std::nullopt;
  return *end - *begin;
}

}  // namespace vrank::emulator
