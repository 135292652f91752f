#include "emulator/session/computing_ranks.h"

#include <chrono>

#include "emulator/session/schedule_log.h"
#include "emulator/watch/process_sample.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;
using std::chrono::milliseconds;

int64_t CpuMs(const GuestLink& link) {
  int64_t cpu_ms = 0;
  for (const pid_t pid : link.pids())
    cpu_ms += SampleProcess(pid).value_or(ProcessSample{}).cpu_ms;
  return cpu_ms;
}

int64_t RealMs() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void ComputingRanks::CountLeftBehind(const RealRank& rank, int64_t clock_ns) {
  world_->CountLoss(rank.rank(), LossId::kRanksLeftBehind);
  LogSchedule(clock_ns, rank.rank(), "left-behind", ScheduleRule::kQuiet);
}

bool ComputingRanks::IsLeftBehind(const RealRank& rank, bool own) {
  const GuestLink& link = rank.link();
  const int64_t clock_ns = link.host_now_ns();
  const bool has_process = !link.pids().empty();
  const int64_t used_ms = has_process ? CpuMs(link) : RealMs();
  Start& start = starts_[rank.rank()];
  if (start.clock_ns != clock_ns || start.written != link.bytes_written() ||
      start.has_process != has_process || used_ms < start.began_ms)
    start = {clock_ns, link.bytes_written(), used_ms, has_process, false, start.own};
  if (start.left_behind || (own && start.own == schedule::kStrikes))
    return true;
  const milliseconds used(used_ms - start.began_ms);
  if (used <
      (own ? Milliseconds(schedule::kThreadTurn) : Milliseconds(schedule::kRankTurn)))
    return false;
  start.left_behind = true;
  start.own += own ? 1 : 0;
  CountLeftBehind(rank, clock_ns);
  return true;
}

bool ComputingRanks::HasUsedBudget(const RealRank& rank, int32_t waiter, int64_t ns) {
  if (turn_.waiter != waiter || turn_.ns != ns)
    turn_ = {waiter, ns, {}, {}};
  const int64_t cpu_ms = CpuMs(rank.link());
  const auto began = turn_.cpu_ms.emplace(rank.rank(), cpu_ms).first;
  if (milliseconds(cpu_ms - began->second) < Milliseconds(schedule::kRankTurn))
    return false;
  if (turn_.left_behind.insert(rank.rank()).second)
    CountLeftBehind(rank, rank.link().host_now_ns());
  return true;
}

}  // namespace vrank::emulator
