// Exhaustive: every combination of flags, a query and a limit at three times, and quiet
// periods of 0 to 10 s.

#include "schedule/quiet.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/policy.h"

namespace vrank::schedule {
namespace {

using std::chrono::milliseconds;

constexpr int kQuietPeriods[] = {0,   1,   39,    40,    99,    100,
                                 499, 500, 4'999, 5'000, 9'999, 10'000};
constexpr int64_t kSecond = 1'000'000'000;

// All but the quiet period, which After() adds.
std::vector<QuietSession> AllSessions() {
  std::vector<QuietSession> all;
  for (unsigned bits = 0; bits < 128; ++bits)
    for (int query = 0; query < 7; ++query)
      for (int limit = 0; limit < 7; ++limit) {
        QuietSession session;
        session.all_wait_for_threads = (bits & 1) != 0;
        session.ends_at_rest = (bits & 2) != 0 && limit != 0;
        session.anyone_sleeps = (bits & 4) != 0;
        session.awaits_virtual_key = (bits & 8) != 0;
        session.others_may_pass = (bits & 16) != 0;
        session.all_wait_here = (bits & 32) != 0;
        session.ends_stuck_ranks = (bits & 64) != 0;
        if (query != 0)
          session.oldest_query = {.asked_ns = (query + 1) / 2 * kSecond,
                                  .about_memory = query % 2 == 0};
        if (limit != 0)
          session.earliest_limit = {.ns = (limit + 1) / 2 * kSecond,
                                    .clock_ns = 0,
                                    .granted = limit % 2 == 0};
        all.push_back(session);
      }
  return all;
}

QuietDecision After(QuietSession session, int quiet_ms) {
  session.quiet = milliseconds(quiet_ms);
  return DecideWhenQuiet(session);
}

TEST(DecideWhenQuietTest, DecidesNothingWhileAThreadMayRun) {
  for (const QuietSession& session : AllSessions())
    if (!session.all_wait_for_threads && !session.ends_at_rest) {
      EXPECT_EQ(After(session, 0), QuietDecision::kNothing);
    }
}

// A longer period never takes a decision back, and never leads to another one. The
// exception, kLetOthersPass, is possible only while others_may_pass.
TEST(DecideWhenQuietTest, TheQuietPeriodDeterminesWhetherNotWhich) {
  for (const QuietSession& session : AllSessions()) {
    std::set<QuietDecision> seen;
    for (const int quiet : kQuietPeriods) {
      const QuietDecision now = After(session, quiet);
      if (now == QuietDecision::kNothing)
        EXPECT_TRUE(seen.empty());
      else
        seen.insert(now);
    }
    if (session.others_may_pass)
      seen.erase(QuietDecision::kLetOthersPass);
    EXPECT_LE(seen.size(), 1u);
  }
}

TEST(DecideWhenQuietTest, TheEarlierComesFirst) {
  for (const QuietSession& session : AllSessions())
    for (const int quiet : kQuietPeriods) {
      const auto& query = session.oldest_query;
      const auto& limit = session.earliest_limit;
      switch (After(session, quiet)) {
        case QuietDecision::kAnswerQuery:
          EXPECT_TRUE(!limit.has_value() || query->asked_ns <= limit->ns);
          break;
        case QuietDecision::kEndLimit:
          EXPECT_TRUE(!query.has_value() || limit->ns < query->asked_ns);
          EXPECT_FALSE(limit->granted);
          break;
        case QuietDecision::kDeadlock:
          EXPECT_FALSE(query.has_value() || limit.has_value());
          EXPECT_TRUE(session.all_wait_for_threads);
          EXPECT_TRUE(session.all_wait_here || session.ends_stuck_ranks);
          EXPECT_GE(milliseconds(quiet),
                    Milliseconds(session.all_wait_here ? kDeadlock : kStuck));
          break;
        case QuietDecision::kSetVirtualKeys:
        case QuietDecision::kLetOthersPass:
          EXPECT_FALSE(session.anyone_sleeps);
          break;
        case QuietDecision::kNothing:
          break;
      }
    }
}

// Every query and limit is decided after a long enough period, and at once if all waits
// are observed, unless a limit granted before precedes it.
TEST(DecideWhenQuietTest, EventuallyDecides) {
  for (const QuietSession& session : AllSessions()) {
    const auto& limit = session.earliest_limit;
    const bool has_one =
        session.oldest_query.has_value() || (limit.has_value() && !limit->granted);
    const bool granted_first = limit.has_value() && limit->granted &&
                               (!session.oldest_query.has_value() ||
                                limit->ns < session.oldest_query->asked_ns);
    if (!has_one || granted_first)
      continue;
    EXPECT_NE(After(session, 10'000), QuietDecision::kNothing);
    if (session.all_wait_for_threads) {
      EXPECT_NE(After(session, 0), QuietDecision::kNothing);
    }
  }
}

// With others_may_pass false, the remaining rules apply.
TEST(DecideWhenQuietTest, OthersPassBeforeQueriesAndLimits) {
  for (QuietSession session : AllSessions()) {
    if (After(session, 100) != QuietDecision::kLetOthersPass)
      continue;
    EXPECT_TRUE(session.others_may_pass);
    EXPECT_FALSE(session.oldest_query.has_value() &&
                 session.oldest_query->about_memory);
    session.others_may_pass = false;
    EXPECT_NE(After(session, 100), QuietDecision::kLetOthersPass);
  }
}

TEST(PatienceForTest, IsATenthWithinBounds) {
  EXPECT_EQ(PatienceFor(0), milliseconds(40));
  EXPECT_EQ(PatienceFor(kSecond), milliseconds(100));
  EXPECT_EQ(PatienceFor(100 * kSecond), milliseconds(5'000));
}

}  // namespace
}  // namespace vrank::schedule
