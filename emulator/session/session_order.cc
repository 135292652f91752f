// What is decided while some rank still runs, and will only do what comes later.
//
// A rank's clock never goes back, so nothing that it does from now on happens before
// that clock, or before the end of its sleep. What another rank asks, waits for or has
// aborted at an earlier time is therefore past: no query of then will find its work
// ended any more, what was aborted ends, and a thread that sleeps beside one that waits
// in the emulator wakes up. All this is exact. It needs clocks of all ranks whose moves
// may matter: ranks that follow live have clocks of their own, so there it is left to
// quiet moments (session_quiet.cc).

#include <algorithm>
#include <vector>

#include "emulator/session/schedule_log.h"
#include "emulator/session/session.h"
#include "schedule/decide.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;

namespace {

// Where all ranks wait, how much later than the furthest of them a thread may still
// wake up, and how long a rank may go on asking about work that no rank brings to an
// end: watchdogs of ranks that began alike do not time out at one moment. Ten ticks
// of PyTorch's, so a job that is stuck is told no later for it.
constexpr int64_t kBeyondTheFurthest = 1'000'000'000;

}  // namespace

// A thread that sleeps, or waits with a limit, in a rank whose issuing threads all wait
// in the emulator.
Session::Grant Session::GrantToBlocked(int64_t before_ns) {
  const Seen seen = LookAtRanks();
  const auto index =
      schedule::FindBlockedBefore(seen.snapshot, before_ns, world_->AllBlocked());
  if (!index.has_value())
    return Grant::kNone;
  RealRank* const sleeper = world_->real()[*index].get();
  const GuestLink::Limit limit = *seen.limits[*index];
  QuietWatch& watch = blocked_.try_emplace(sleeper->rank(), &threads_).first->second;
  const bool rests = limit.sleeps && Rest({sleeper}, ThreadsIn::kAnyWait).has_value();
  if (!rests && watch.Look(QuietWatch::Clock::now(), {&sleeper->link()}) <
                    Milliseconds(schedule::kIdle))
    return Grant::kWaiting;
  LogLimit(sleeper->rank(), limit, ScheduleRule::kPast);
  sleeper->link().GrantLimit(limit);
  watch.Moved();
  return Grant::kGranted;
}

int64_t Session::LatestClock() const {
  return schedule::LatestClock(LookAtRanks().snapshot);
}

// A watchdog may abort what its rank waits for. It gets little further than the
// furthest rank has got, one that has ended, too; time that nobody needs does not pass
// for it.
bool Session::LetSleepersCatchUp() {
  const auto now = QuietWatch::Clock::now();
  if (GrantToBlocked(LatestClock() + kBeyondTheFurthest) == Grant::kNone)
    return false;
  if (!catching_up_since_.has_value())
    catching_up_since_ = now;
  return now - *catching_up_since_ < Milliseconds(schedule::kCatchUp);
}

// A thread that has issued nothing so far is not counted among those that a rank waits
// for, and may be about to bring what all wait for.
bool Session::SomeThreadRuns() {
  std::vector<const GuestLink*> links;
  for (const auto& rank : world_->real())
    if (!rank->closed())
      links.push_back(&rank->link());
  const auto now = QuietWatch::Clock::now();
  return quiet_.Look(now, links) < Milliseconds(schedule::kIdle) &&
         now - *stuck_since_ < Milliseconds(schedule::kCatchUp);
}

bool Session::AnyoneFollows() const {
  return std::any_of(
      options_.virtual_ranks.begin(), options_.virtual_ranks.end(),
      [](const VirtualRank& rank) { return rank.part != VirtualRank::Part::kAbsent; });
}

bool Session::DecideWhatIsPast() {
  if (AnyoneFollows())
    return false;
  const int64_t now = schedule::EarliestClock(LookAtRanks().snapshot);
  if (now == 0 || now == schedule::kNoTime)
    return false;
  if (world_->EndAborted(now))
    return true;
  const auto query = world_->OldestQuery();
  const int64_t asked = query.has_value() ? query->asked_ns : schedule::kNoTime;
  const Grant grant = GrantToBlocked(std::min(now, asked));
  if (grant == Grant::kGranted)
    return true;
  if (query.has_value() && query->needs_all_rest)
    return false;
  // When a meeting ends is up to the others.
  const bool meets = query.has_value() && query->meets && grant == Grant::kNone;
  const int64_t issue =
      schedule::EarliestIssue(LookAtRanks().snapshot, meets ? query->rank : -1);
  if (asked >= issue)
    return false;
  causality_.Told(query->rank, asked);
  if (!world_->DecideOldestQuery(issue == schedule::kNoTime ? 0 : issue))
    return false;
  LogQuery(*query, ScheduleRule::kPast);
  return true;
}

// The rank that queries the memory of others continues once it is answered, and may
// issue what a thread waits for. So it is answered before any wait is passed.
bool Session::DecideMemoryOfBlocked() {
  const auto query = world_->OldestQuery();
  return query.has_value() && query->about_memory && DecideQueryOfBlocked();
}

// A loop that asks until a time has come gets there, and threads of other ranks that
// wait for an earlier one wake up meanwhile. One that asks for ever is stuck as a wait
// would be.
bool Session::DecideQueryOfBlocked() {
  const auto query = world_->OldestQuery();
  if (!query.has_value())
    return false;
  if (!only_queries_since_ns_.has_value())
    only_queries_since_ns_ = std::max(LatestClock(), query->asked_ns);
  else if (const Grant grant = GrantToBlocked(query->asked_ns); grant != Grant::kNone)
    return grant == Grant::kGranted;
  const int64_t stuck = *only_queries_since_ns_ + kBeyondTheFurthest;
  if (query->asked_ns >= stuck ||
      !world_->DecideOldestQuery(
          std::min(stuck, schedule::EarliestLimit(LookAtRanks().snapshot))))
    return false;
  LogQuery(*query, ScheduleRule::kStuck);
  return true;
}

}  // namespace vrank::emulator
