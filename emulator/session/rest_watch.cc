#include "emulator/session/rest_watch.h"

#include <thread>
#include <utility>

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
  const auto between = schedule::Chrono(schedule::kBetweenLooks);
  const auto longest = schedule::Chrono(schedule::kLongestLook);
  auto runs = RunsOfWaiters(ranks, where);
  // Threads that wait with a limit look at their objects now and then: of many threads,
  // one has often run.
  for (auto passed = between - between; runs.has_value() && passed < longest;
       passed += between) {
    std::this_thread::sleep_for(between);
    const auto before = std::exchange(runs, RunsOfWaiters(ranks, where));
    if (runs == before)
      return AnythingUnread() ? std::nullopt : runs;
  }
  return std::nullopt;
}

bool RestWatch::HaveRested(const std::vector<const RealRank*>& ranks, ThreadsIn where,
                           const Runs& since) {
  return RunsOfWaiters(ranks, where) == since && !AnythingUnread();
}

// The store answers requests, too, so its unread ones count.
bool RestWatch::AnythingUnread() const {
  return events_->AnyReadable() || AnyUnread(*world_);
}

bool RestWatch::AllWaitForThreads() {
  return Look(AllRealRanks(*world_), ThreadsIn::kWaitsForThreads).has_value();
}

}  // namespace vrank::emulator
