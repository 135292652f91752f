#include "emulator/session/blocked_ranks.h"

#include <algorithm>

#include "emulator/session/rank_waits.h"
#include "emulator/session/schedule_log.h"
#include "schedule/decide.h"
#include "schedule/policy.h"

namespace vrank::emulator {
namespace {

using schedule::Milliseconds;

// Where all ranks are blocked: how much later than the latest clock a thread may still
// wake up, and how long a rank may query work that no rank brings to an end, in ns.
// Watchdogs of ranks that began alike do not time out at one moment. Ten ticks of
// PyTorch's; a job that is stuck is reported no later for it, since time is virtual.
constexpr int64_t kBeyondTheLatest = 1'000'000'000;

}  // namespace

BlockedRanks::Grant BlockedRanks::GrantBefore(int64_t ns) {
  const RankWaits waits = ReadWaits(*world_);
  const auto index =
      schedule::FindBlockedBefore(waits.snapshot, ns, world_->AllBlocked());
  if (!index.has_value())
    return Grant::kNone;
  RealRank* const sleeper = world_->real()[*index].get();
  const GuestLink::Limit limit = *waits.limits[*index];
  QuietWatch& quiet = quiet_.try_emplace(sleeper->rank(), threads_).first->second;
  const bool rests = limit.sleeps && rest_->AreAtRest({sleeper});
  if (!rests && quiet.Look(QuietWatch::Clock::now(), {&sleeper->link()}) <
                    Milliseconds(schedule::kIdle))
    return Grant::kWaiting;
  LogLimit(sleeper->rank(), limit, ScheduleRule::kPast);
  sleeper->link().GrantLimit(limit);
  quiet.Moved();
  return Grant::kGranted;
}

// The latest clock may be that of a rank that has ended.
bool BlockedRanks::LetSleepersCatchUp() {
  const auto now = QuietWatch::Clock::now();
  if (GrantBefore(LatestClock(*world_) + kBeyondTheLatest) == Grant::kNone)
    return false;
  if (!catching_up_since_.has_value())
    catching_up_since_ = now;
  return now - *catching_up_since_ < Milliseconds(schedule::kCatchUp);
}

bool BlockedRanks::DecidePast() {
  if (has_followers_)
    return false;
  const int64_t now = schedule::EarliestClock(ReadWaits(*world_).snapshot);
  if (now == 0 || now == schedule::kNoTime)
    return false;
  if (world_->EndAborted(now))
    return true;
  const auto query = world_->OldestQuery();
  const int64_t asked = query.has_value() ? query->asked_ns : schedule::kNoTime;
  const Grant grant = GrantBefore(std::min(now, asked));
  if (grant == Grant::kGranted)
    return true;
  if (query.has_value() && query->needs_all_rest)
    return false;
  // The end of a meeting depends on its other members.
  const bool meets = query.has_value() && query->meets && grant == Grant::kNone;
  const int64_t issue =
      schedule::EarliestIssue(ReadWaits(*world_).snapshot, meets ? query->rank : -1);
  if (asked >= issue)
    return false;
  causality_->Told(query->rank, asked);
  if (!world_->DecideOldestQuery(issue == schedule::kNoTime ? 0 : issue))
    return false;
  LogQuery(*query, ScheduleRule::kPast);
  return true;
}

// The rank that queries the memory of others continues once it is answered, and may
// issue what a thread waits for. So it is answered before any wait is passed.
bool BlockedRanks::DecideAllBlocked() {
  const auto query = world_->OldestQuery();
  return (query.has_value() && query->about_memory && DecideQuery()) ||
         world_->LetOtherThreadsPass() || DecideQuery();
}

// A loop that queries until a certain time reaches that time, and threads of other
// ranks that wait for an earlier one wake up meanwhile. A loop without end is stuck as
// a wait would be.
bool BlockedRanks::DecideQuery() {
  const auto query = world_->OldestQuery();
  if (!query.has_value())
    return false;
  if (!only_queries_since_ns_.has_value())
    only_queries_since_ns_ = std::max(LatestClock(*world_), query->asked_ns);
  else if (const Grant grant = GrantBefore(query->asked_ns); grant != Grant::kNone)
    return grant == Grant::kGranted;
  const int64_t stuck = *only_queries_since_ns_ + kBeyondTheLatest;
  if (query->asked_ns >= stuck ||
      !world_->DecideOldestQuery(
          std::min(stuck, schedule::EarliestLimit(ReadWaits(*world_).snapshot))))
    return false;
  LogQuery(*query, ScheduleRule::kStuck);
  return true;
}

}  // namespace vrank::emulator
