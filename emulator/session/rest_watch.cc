#include "emulator/session/rest_watch.h"

#include <thread>

#include "emulator/session/rank_waits.h"
#include "schedule/policy.h"

namespace vrank::emulator {

std::optional<RestWatch::Runs> RestWatch::RunsOfWaiters(
    const std::vector<const RealRank*>& ranks, ThreadsIn where) {
  for (const RealRank* rank : ranks)
    for (const pid_t pid : rank->link().pids())
      if (threads_->StillRuns(pid))
        return std::nullopt;
  Runs runs;
  for (const RealRank* rank : ranks) {
    const GuestLink& link = rank->link();
    const std::vector<pid_t> pids = link.pids();
    if (!rank->closed() && (pids.empty() || link.HasGrant() || link.LooksAgainSoon()))
      return std::nullopt;
    for (const pid_t pid : pids) {
      const auto waiters = threads_->Look(pid, where);
      if (!waiters.has_value())
        return std::nullopt;
      runs.push_back(waiters->runs);
    }
  }
  return runs;
}

std::optional<RestWatch::Runs> RestWatch::Look(
    const std::vector<const RealRank*>& ranks, ThreadsIn where) {
  const auto runs = RunsOfWaiters(ranks, where);
  if (!runs.has_value())
    return std::nullopt;
  std::this_thread::sleep_for(schedule::Chrono(schedule::kBetweenLooks));
  if (RunsOfWaiters(ranks, where) != runs)
    return std::nullopt;
  // The store answers requests, too, so its unread ones count.
  if (events_->AnyReadable() || AnyUnread(*world_))
    return std::nullopt;
  return runs;
}

bool RestWatch::AllWaitForThreads() {
  return Look(AllRealRanks(*world_), ThreadsIn::kWaitsForThreads).has_value();
}

}  // namespace vrank::emulator
