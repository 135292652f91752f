#include "emulator/session/blocked_ranks.h"

#include <algorithm>

#include "schedule/blocked.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;

bool BlockedRanks::Expire(const RankWaits& waits, size_t index) {
  RealRank* const rank = world_->real()[index].get();
  const GuestLink::Limit limit = *waits.limits[index];
  QuietWatch& quiet = quiet_.try_emplace(rank->rank(), threads_).first->second;
  const bool rests = limit.sleeps && rest_->AreAtRest({rank});
  if (!rests && quiet.Look(QuietWatch::Clock::now(), {&rank->link()}) <
                    Milliseconds(schedule::kIdle))
    return false;
  LogLimit(rank->rank(), limit, ScheduleRule::kPast);
  rank->link().GrantLimit(limit);
  quiet.Moved();
  return true;
}

bool BlockedRanks::Answer(const schedule::OpenQuery& query, int64_t until_ns,
                          ScheduleRule rule) {
  if (!world_->DecideOldestQuery(until_ns))
    return false;
  LogQuery(query, rule);
  return true;
}

// The latest clock may be that of a rank that has ended.
bool BlockedRanks::LetSleepersCatchUp() {
  const RankWaits waits = ReadWaits(*world_);
  const auto index = schedule::FindBlockedBefore(
      waits.snapshot,
      schedule::LatestClock(waits.snapshot) + schedule::kBeyondLatestClockNs,
      world_->AllBlocked());
  if (!index.has_value())
    return false;
  Expire(waits, *index);
  const auto now = QuietWatch::Clock::now();
  if (!catching_up_since_.has_value())
    catching_up_since_ = now;
  return now - *catching_up_since_ < Milliseconds(schedule::kCatchUp);
}

bool BlockedRanks::DecidePast() {
  if (has_followers_)
    return false;
  const auto query = world_->OldestQuery();
  const RankWaits waits = ReadWaits(*world_);
  const schedule::PastDecisions past = schedule::DecidePast(waits.snapshot, query);
  if (past.aborted_before_ns != 0 && world_->EndAborted(past.aborted_before_ns))
    return true;
  if (past.expiring.has_value() && Expire(waits, *past.expiring))
    return true;
  if (!past.answer_until_ns.has_value())
    return false;
  causality_->Told(query->rank, query->asked_ns);
  const int64_t until = *past.answer_until_ns;
  return Answer(*query, until == schedule::kNoTime ? 0 : until, ScheduleRule::kPast);
}

// The rank that queries the memory of others continues once it is answered, and may
// issue what a thread waits for. So it is answered before any wait is passed.
bool BlockedRanks::DecideAllBlocked() {
  const auto query = world_->OldestQuery();
  return (query.has_value() && query->about_memory && DecideQuery()) ||
         world_->LetOtherThreadsPass() || DecideQuery();
}

bool BlockedRanks::DecideQuery() {
  using Kind = schedule::BlockedDecision::Kind;
  const auto query = world_->OldestQuery();
  if (!query.has_value())
    return false;
  const RankWaits waits = ReadWaits(*world_);
  const schedule::BlockedDecision next =
      schedule::DecideAllBlocked(waits.snapshot, *query, only_queries_since_ns_);
  if (!only_queries_since_ns_.has_value())
    only_queries_since_ns_ =
        std::max(schedule::LatestClock(waits.snapshot), query->asked_ns);
  switch (next.kind) {
    case Kind::kNothing:
      return false;
    case Kind::kLimit:
      return Expire(waits, next.index);
    case Kind::kAnswer:
      return Answer(*query, next.until_ns, ScheduleRule::kStuck);
  }
  return false;
}

}  // namespace vrank::emulator
