#include "emulator/session/wait_scheduler.h"

#include <algorithm>
#include <optional>

#include "emulator/session/rank_waits.h"
#include "emulator/session/schedule_log.h"
#include "emulator/watch/loopback_traffic.h"
#include "schedule/decide.h"
#include "schedule/policy.h"
#include "schedule/quiet.h"

namespace vrank::emulator {

using schedule::Milliseconds;

WaitScheduler::WaitScheduler(World* world, RestWatch* rest, ThreadWatch* threads,
                             CausalityWatch* causality, bool has_followers)
    : world_(world),
      rest_(rest),
      causality_(causality),
      has_followers_(has_followers),
      computing_(world),
      quiet_(threads) {}

std::vector<const RealRank*> WaitScheduler::RanksBefore(const Decision& next) const {
  std::vector<const RealRank*> before;
  for (const size_t index : schedule::ThoseBefore(
           ReadWaits(*world_).snapshot, next.rank->rank(), next.ns, next.AllRest()))
    before.push_back(world_->real()[index].get());
  return before;
}

bool WaitScheduler::EndNextWait() {
  const std::optional<NextLimit> next = FindNextLimit(*world_);
  if (!next.has_value() || next->rank->link().HasGrant())
    return false;
  const auto query = world_->OldestQuery();
  if (query.has_value() && query->asked_ns <= next->limit.ns)
    return false;
  const Decision decision{next->rank, next->limit.ns,
                          next->limit.turn != 0 ? Decision::Kind::kTurn
                          : next->at_once       ? Decision::Kind::kSleep
                                                : Decision::Kind::kWait};
  const std::vector<const RealRank*> before = RanksBefore(decision);
  const auto& real = world_->real();
  const bool all_before =
      before.size() ==
      static_cast<size_t>(std::count_if(
          real.begin(), real.end(), [](const auto& rank) { return !rank->closed(); }));
  if (!next->at_once && all_before)
    return false;
  if (!AreAtRest(decision, before) || !IsStillNext(*next, *world_))
    return false;
  LogLimit(next->rank->rank(), next->limit,
           next->at_once ? ScheduleRule::kRest : ScheduleRule::kQuiet);
  next->rank->link().GrantLimit(next->limit);
  quiet_.Moved();
  return true;
}

// The work has not ended, once all ranks rest and nothing is under way between them. A
// rank that polls gets one answer for all polls up to the next limit, unless virtual
// ranks follow live: their clocks may lag behind.
bool WaitScheduler::AnswerNextQuery() {
  const auto query = world_->OldestQuery();
  if (!query.has_value() || !AnyoneSleeps(*world_))
    return false;
  const auto next = FindNextLimit(*world_);
  if (next.has_value() && next->limit.ns < query->asked_ns)
    return false;
  const Decision decision{&RealRankOf(*world_, query->rank), query->asked_ns,
                          Decision::Kind::kQuery};
  if (!AreAtRest(decision, RanksBefore(decision)))
    return false;
  const auto now = world_->OldestQuery();
  if (!now.has_value() || now->rank != query->rank || now->asked_ns != query->asked_ns)
    return false;
  causality_->Told(query->rank, query->asked_ns);
  LogQuery(*query, ScheduleRule::kRest);
  world_->DecideOldestQuery(next.has_value() && !has_followers_ ? next->limit.ns : 0);
  quiet_.Moved();
  return true;
}

bool WaitScheduler::AreAtRest(const Decision& next,
                              std::vector<const RealRank*> ranks) {
  std::vector<const GuestLink*> links;
  for (const RealRank* rank : ranks)
    links.push_back(&rank->link());
  const auto now = QuietWatch::Clock::now();
  if (next.kind == Decision::Kind::kWait)
    return quiet_.Look(now, links) >=
           schedule::PatienceFor(next.ns - next.rank->link().host_now_ns());
  // Bytes may be under way to a thread that keeps its turn. A poll of the network takes
  // far longer than one of threads.
  const auto rest = rest_->Look(ranks, ThreadsIn::kAnyWait);
  if (rest.has_value() &&
      (!next.AllRest() ||
       (!LoopbackInFlight() && rest_->HaveRested(ranks, ThreadsIn::kAnyWait, *rest))))
    return true;
  if (quiet_.Look(now, links) >= Milliseconds(schedule::kRest))
    return true;
  const size_t erased = std::erase_if(ranks, [&](const RealRank* rank) {
    const bool own = rank == next.rank;
    return computing_.IsLeftBehind(*rank, own) ||
           (next.kind == Decision::Kind::kTurn && !own &&
            computing_.HasUsedBudget(*rank, next.rank->rank(), next.ns));
  });
  return erased != 0 && rest_->AreAtRest(ranks);
}

}  // namespace vrank::emulator
