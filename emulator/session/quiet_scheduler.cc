#include "emulator/session/quiet_scheduler.h"

#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "emulator/session/schedule_log.h"
#include "schedule/policy.h"

namespace vrank::emulator {

using schedule::Milliseconds;
using std::chrono::milliseconds;

QuietScheduler::QuietScheduler(World* world, StoreServer* store, RestWatch* rest,
                               ThreadWatch* threads, CausalityWatch* causality,
                               bool has_virtual_ranks)
    : world_(world),
      store_(store),
      rest_(rest),
      causality_(causality),
      has_virtual_ranks_(has_virtual_ranks),
      quiet_(threads) {}

milliseconds QuietScheduler::QuietFor() {
  return quiet_.Look(QuietWatch::Clock::now(), OpenLinks(*world_));
}

bool QuietScheduler::EndsAtRest(const NextLimit& next) {
  if (!next.limit.ends_at_rest || next.rank->link().HasGrant() || store_->HasMissing())
    return false;
  // A thread may wait for what another one of its process has issued behind it.
  for (const auto& rank : world_->real())
    if (!rank->closed() && rank->has_questions() && !rank->link().Blocked())
      return false;
  return rest_->AreAtRest(AllRealRanks(*world_)) && IsStillNext(next, *world_);
}

absl::StatusOr<QuietScheduler::Outcome> QuietScheduler::Decide() {
  const milliseconds quiet = QuietFor();
  const bool all_sleep = rest_->AllWaitForThreads();
  const std::optional<NextLimit> next = FindNextLimit(*world_);
  const bool ends_at_rest = !all_sleep && next.has_value() && EndsAtRest(*next);
  if (quiet.count() == 0 && !all_sleep && !ends_at_rest)
    return Outcome::kNothing;
  // A sleeper continues by itself (wait_scheduler.h), and may bring what others wait
  // for.
  const bool none_continues = !AnyoneSleeps(*world_);
  // No real rank is going to set what another one waits for. Where all are real, none
  // would have: the wait ends as the program limits it.
  if (none_continues && store_->HasMissing() && has_virtual_ranks_) {
    RETURN_IF_ERROR(store_->SetForAbsent());
    quiet_.Moved();
    return Outcome::kDecided;
  }
  const auto query = world_->OldestQuery();
  const bool asks_about_memory = query.has_value() && query->about_memory;
  // A thread waits for what another one of its process has issued behind it.
  if (none_continues && (all_sleep || quiet >= Milliseconds(schedule::kUnseen)) &&
      !asks_about_memory && world_->LetOtherThreadsPass()) {
    quiet_.Moved();
    return Outcome::kDecided;
  }
  if (query.has_value() && (!next.has_value() || query->asked_ns <= next->limit.ns)) {
    if (!all_sleep && quiet < Milliseconds(schedule::kUnseen))
      return Outcome::kNothing;
    causality_->Told(query->rank, query->asked_ns);
    LogQuery(*query, all_sleep ? ScheduleRule::kRest : ScheduleRule::kQuiet);
    world_->DecideOldestQuery();
    quiet_.Moved();
    return Outcome::kDecided;
  }
  if (!next.has_value()) {
    const auto& real = world_->real();
    const bool waits_here = std::all_of(real.begin(), real.end(), [](const auto& rank) {
      return rank->closed() || rank->has_questions();
    });
    return quiet >= Milliseconds(schedule::kDeadlock) && all_sleep && waits_here
               ? Outcome::kDeadlock
               : Outcome::kNothing;
  }
  const GuestLink& link = next->rank->link();
  if (link.HasGrant())
    return Outcome::kNothing;
  if (!all_sleep && !ends_at_rest &&
      quiet < QuietWatch::PatienceFor(next->limit.ns - link.host_now_ns()))
    return Outcome::kNothing;
  LogLimit(next->rank->rank(), next->limit,
           all_sleep || ends_at_rest ? ScheduleRule::kRest : ScheduleRule::kQuiet);
  if (next->limit.ends_at_rest)
    short_looks_until_ = QuietWatch::Clock::now() + Milliseconds(schedule::kShortLooks);
  next->rank->link().GrantLimit(next->limit);
  quiet_.Moved();
  return Outcome::kDecided;
}

}  // namespace vrank::emulator
