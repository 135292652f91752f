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
#include <limits>
#include <vector>

#include "emulator/session/schedule_log.h"
#include "emulator/session/session.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Where all ranks wait, how much later than the furthest of them a thread may still
// wake up, and how long a rank may go on asking about work that no rank brings to an
// end: watchdogs of ranks that began alike do not time out at one moment. Ten ticks
// of PyTorch's, so a job that is stuck is told no later for it.
constexpr int64_t kBeyondTheFurthest = 1'000'000'000;

}  // namespace

// Of those that are not blocked, but for one rank. Read before the rings are found
// empty: what a rank has written by this time of its clock has been seen then.
template <typename ClockOfLink>
int64_t Session::EarliestOfRunning(int32_t except, ClockOfLink clock) const {
  int64_t earliest = kNever;
  for (const auto& rank : world_->real())
    if (rank->rank() != except && !rank->closed() && !rank->link().Blocked())
      earliest = std::min(earliest, clock(rank->link()));
  for (const auto& link : links_)
    if (link->BytesWaiting() != 0)
      return 0;
  return earliest;
}

int64_t Session::EarliestClock() const {
  return EarliestOfRunning(-1,
                           [](const GuestLink& link) { return link.host_now_ns(); });
}

// Nothing is issued before. A thread that sleeps issues nothing until then, unless
// another one does that. It may sleep beside one that waits in the emulator.
int64_t Session::EarliestIssue(int32_t except) const {
  int64_t earliest = EarliestOfRunning(except, [](const GuestLink& link) {
    const int64_t now_ns = link.host_now_ns();
    const auto limit = link.EarliestLimit();
    const bool sleeps =
        limit.has_value() && limit->sleeps && link.running_issuers() <= 1;
    return sleeps ? std::max(now_ns, limit->ns) : now_ns;
  });
  for (const auto& rank : world_->real()) {
    if (rank->rank() == except || rank->closed() || !rank->link().Blocked())
      continue;
    if (const auto limit = rank->link().EarliestLimit();
        limit.has_value() && limit->sleeps)
      earliest = std::min(earliest, limit->ns);
  }
  return earliest;
}

int64_t Session::LatestOfAll() const {
  int64_t latest = 0;
  for (const auto& rank : world_->real())
    latest = std::max(latest, rank->link().host_now_ns());
  return latest;
}

// A thread that sleeps, or waits with a limit, in a rank whose issuing threads all wait
// in the emulator.
Session::Grant Session::GrantToBlocked(int64_t before_ns) {
  // A turn, which what comes later may bring, is no limit (session_turns.cc).
  RealRank* sleeper = nullptr;
  GuestLink::Limit limit{0, before_ns};
  for (const auto& rank : world_->real()) {
    if (rank->closed() || !rank->link().Blocked())
      continue;
    const auto earliest = rank->link().EarliestLimit();
    if (earliest.has_value() && earliest->ns < limit.ns &&
        (earliest->turn == 0 || world_->AllBlocked())) {
      sleeper = rank.get();
      limit = *earliest;
    }
  }
  if (sleeper == nullptr)
    return Grant::kNone;
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

// A watchdog may abort what its rank waits for. It gets little further than the
// furthest rank has got, one that has ended, too; time that nobody needs does not pass
// for it.
bool Session::LetSleepersCatchUp() {
  const auto now = QuietWatch::Clock::now();
  if (GrantToBlocked(LatestOfAll() + kBeyondTheFurthest) == Grant::kNone)
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
  const int64_t now = EarliestClock();
  if (now == 0 || now == kNever)
    return false;
  if (world_->EndAborted(now))
    return true;
  const auto query = world_->OldestQuery();
  const int64_t asked = query.has_value() ? query->asked_ns : kNever;
  const Grant grant = GrantToBlocked(std::min(now, asked));
  if (grant == Grant::kGranted)
    return true;
  if (query.has_value() && query->needs_all_rest)
    return false;
  // When a meeting ends is up to the others.
  const bool meets = query.has_value() && query->meets && grant == Grant::kNone;
  const int64_t issue = EarliestIssue(meets ? query->rank : -1);
  if (asked >= issue)
    return false;
  causality_.Told(query->rank, asked);
  if (!world_->DecideOldestQuery(issue == kNever ? 0 : issue))
    return false;
  LogQuery(*query, ScheduleRule::kPast);
  return true;
}

int64_t Session::EarliestLimit() const {
  int64_t earliest = kNever;
  for (const auto& rank : world_->real())
    if (const auto limit = rank->closed() ? std::nullopt : rank->link().EarliestLimit();
        limit.has_value())
      earliest = std::min(earliest, limit->ns);
  return earliest;
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
    only_queries_since_ns_ = std::max(LatestOfAll(), query->asked_ns);
  else if (const Grant grant = GrantToBlocked(query->asked_ns); grant != Grant::kNone)
    return grant == Grant::kGranted;
  const int64_t stuck = *only_queries_since_ns_ + kBeyondTheFurthest;
  if (query->asked_ns >= stuck ||
      !world_->DecideOldestQuery(std::min(stuck, EarliestLimit())))
    return false;
  LogQuery(*query, ScheduleRule::kStuck);
  return true;
}

}  // namespace vrank::emulator
