#include "schedule/blocked.h"

#include <algorithm>

namespace vrank::schedule {

PastDecisions DecidePast(const Snapshot& snapshot,
                         const std::optional<OpenQuery>& oldest_query) {
  PastDecisions past;
  const int64_t now = EarliestClock(snapshot);
  if (now == 0 || now == kNoTime)
    return past;
  past.aborted_before_ns = now;
  const int64_t asked = oldest_query.has_value() ? oldest_query->asked_ns : kNoTime;
  past.expiring =
      FindBlockedBefore(snapshot, std::min(now, asked), /*all_blocked=*/false);
  if (!oldest_query.has_value() || oldest_query->needs_all_rest)
    return past;
  // The end of a meeting depends on its other members.
  const bool by_others = oldest_query->meets && !past.expiring.has_value();
  const int64_t issue = EarliestIssue(snapshot, by_others ? oldest_query->rank : -1);
  if (asked < issue)
    past.answer_until_ns = issue;
  return past;
}

// A loop that queries until a certain time reaches that time, and threads of other
// ranks that sleep until an earlier one wake up meanwhile. A loop without end is stuck
// as a wait would be.
BlockedDecision DecideAllBlocked(const Snapshot& snapshot,
                                 const OpenQuery& oldest_query,
                                 std::optional<int64_t> since_ns) {
  using Kind = BlockedDecision::Kind;
  const int64_t asked = oldest_query.asked_ns;
  if (since_ns.has_value())
    if (const auto index = FindBlockedBefore(snapshot, asked, /*all_blocked=*/true))
      return {.kind = Kind::kLimit, .index = *index};
  const int64_t since = since_ns.value_or(std::max(LatestClock(snapshot), asked));
  const int64_t stuck = since + kBeyondLatestClockNs;
  if (asked >= stuck)
    return {};
  return {.kind = Kind::kAnswer, .until_ns = std::min(stuck, EarliestLimit(snapshot))};
}

}  // namespace vrank::schedule
