#include "schedule/quiet.h"

#include <algorithm>

#include "schedule/policy.h"

namespace vrank::schedule {
namespace {

bool ComesBeforeLimit(const QuietSession& session) {
  return !session.earliest_limit.has_value() ||
         session.oldest_query->asked_ns <= session.earliest_limit->ns;
}

}  // namespace

QuietDecision DecideWhenQuiet(const QuietSession& session) {
  const bool waits_unseen = !session.all_wait_for_threads;
  const auto quiet_for = [&](std::chrono::milliseconds least) {
    return session.quiet >= least;
  };
  if (session.quiet.count() == 0 && waits_unseen && !session.ends_at_rest)
    return QuietDecision::kNothing;
  if (!session.anyone_sleeps && session.awaits_virtual_key)
    return QuietDecision::kSetVirtualKeys;
  const auto& query = session.oldest_query;
  const bool past_unseen = !waits_unseen || quiet_for(Milliseconds(schedule::kUnseen));
  // A rank that queries memory continues with the answer, and may issue the work that
  // another thread is blocked on.
  const bool asks_about_memory = query.has_value() && query->about_memory;
  if (!session.anyone_sleeps && past_unseen && !asks_about_memory &&
      session.others_may_pass)
    return QuietDecision::kLetOthersPass;
  if (query.has_value() && ComesBeforeLimit(session))
    return past_unseen ? QuietDecision::kAnswerQuery : QuietDecision::kNothing;
  const auto& limit = session.earliest_limit;
  if (!limit.has_value()) {
    const bool is_stuck =
        session.all_wait_here
            ? quiet_for(Milliseconds(schedule::kDeadlock))
            : session.ends_stuck_ranks && quiet_for(Milliseconds(schedule::kStuck));
    return !waits_unseen && is_stuck ? QuietDecision::kDeadlock
                                     : QuietDecision::kNothing;
  }
  const bool past_limit = !waits_unseen || session.ends_at_rest ||
                          quiet_for(PatienceFor(limit->ns - limit->clock_ns));
  return past_limit && !limit->granted ? QuietDecision::kEndLimit
                                       : QuietDecision::kNothing;
}

std::chrono::milliseconds PatienceFor(int64_t wait_ns) {
  const Duration share = Duration::Nanoseconds(wait_ns / schedule::kPatienceShare);
  return Milliseconds(
      std::clamp(share, schedule::kShortestPatience, schedule::kLongestPatience));
}

}  // namespace vrank::schedule
