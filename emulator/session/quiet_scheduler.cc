#include "emulator/session/quiet_scheduler.h"

#include <algorithm>
#include <optional>

#include "base/status_macros.h"
#include "schedule/policy.h"
#include "schedule/quiet.h"

namespace vrank::emulator {

using schedule::Milliseconds;
using std::chrono::milliseconds;

QuietScheduler::QuietScheduler(World* world, StoreServer* store, RestWatch* rest,
                               ThreadWatch* threads, CausalityWatch* causality,
                               bool has_virtual_ranks, bool ends_stuck_ranks)
    : world_(world),
      store_(store),
      rest_(rest),
      causality_(causality),
      has_virtual_ranks_(has_virtual_ranks),
      ends_stuck_ranks_(ends_stuck_ranks),
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
  schedule::QuietSession session;
  session.quiet = QuietFor();
  session.all_wait_for_threads = rest_->AllWaitForThreads();
  const std::optional<NextLimit> next = FindNextLimit(*world_);
  session.ends_at_rest =
      !session.all_wait_for_threads && next.has_value() && EndsAtRest(*next);
  session.anyone_sleeps = AnyoneSleeps(*world_);
  // Where all ranks are real, none would have set the key: the wait ends as the program
  // limits it.
  session.awaits_virtual_key = has_virtual_ranks_ && store_->HasMissing();
  const auto& real = world_->real();
  session.all_wait_here = std::all_of(real.begin(), real.end(), [](const auto& rank) {
    return rank->closed() || rank->has_questions();
  });
  session.ends_stuck_ranks = ends_stuck_ranks_;
  const auto query = session.oldest_query = world_->OldestQuery();
  if (next.has_value())
    session.earliest_limit = {next->limit.ns, next->rank->link().host_now_ns(),
                              next->rank->link().HasGrant()};

  schedule::QuietDecision decision = schedule::DecideWhenQuiet(session);
  if (decision == schedule::QuietDecision::kLetOthersPass &&
      !world_->LetOtherThreadsPass()) {
    session.others_may_pass = false;
    decision = schedule::DecideWhenQuiet(session);
  }
  switch (decision) {
    case schedule::QuietDecision::kNothing:
      return Outcome::kNothing;
    case schedule::QuietDecision::kDeadlock:
      return Outcome::kDeadlock;
    case schedule::QuietDecision::kSetVirtualKeys:
      RETURN_IF_ERROR(store_->SetForAbsent());
      break;
    case schedule::QuietDecision::kLetOthersPass:
      break;
    case schedule::QuietDecision::kAnswerQuery:
      causality_->Told(query->rank, query->asked_ns);
      LogQuery(*query, session.all_wait_for_threads ? ScheduleRule::kRest
                                                    : ScheduleRule::kQuiet);
      world_->DecideOldestQuery();
      break;
    case schedule::QuietDecision::kEndLimit:
      EndLimit(*next, session.all_wait_for_threads || session.ends_at_rest
                          ? ScheduleRule::kRest
                          : ScheduleRule::kQuiet);
      break;
  }
  quiet_.Moved();
  return Outcome::kDecided;
}

void QuietScheduler::EndLimit(const NextLimit& next, ScheduleRule rule) {
  LogLimit(next.rank->rank(), next.limit, rule);
  if (next.limit.ends_at_rest)
    short_looks_until_ = QuietWatch::Clock::now() + Milliseconds(schedule::kShortLooks);
  next.rank->link().GrantLimit(next.limit);
}

}  // namespace vrank::emulator
