// Answers to queries in small worlds: all orders in which ranks may run in real time
// are tried, and decisions are made as the session makes them.
//
// A world has up to three ranks. A rank computes, sleeps, issues work that ends 1 ns
// later, or queries whether the n-th work of another rank has ended. Answers do not
// change what a program does, so each query has one right answer, which follows from
// the programs alone. The session must give it, at once or later, in every order.

#include "schedule/blocked.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::schedule {
namespace {

struct Act {
  enum class Kind { kCompute, kSleep, kIssue, kQuery } kind = Kind::kCompute;
  int64_t ns = 0;     // to compute or to sleep
  size_t of = 0;      // kQuery: the rank that is asked about
  size_t number = 0;  // ... and which of its work
};

using Programs = std::vector<std::vector<Act>>;  // by rank

Programs RandomPrograms(std::mt19937_64* random) {
  const auto below = [random](uint64_t most) { return (*random)() % most; };
  Programs programs(2 + below(2));
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    programs[rank].resize(1 + below(programs.size() == 2 ? 6 : 4));
    for (Act& act : programs[rank]) {
      act.kind = static_cast<Act::Kind>(below(4));
      act.ns = static_cast<int64_t>(1 + below(4));
      act.of = (rank + 1 + below(programs.size() - 1)) % programs.size();
      act.number = below(2);
    }
  }
  return programs;
}

// When the work ends, by rank and number; what a rank never issues is left out.
std::map<std::pair<size_t, size_t>, int64_t> EndsOfWork(const Programs& programs) {
  std::map<std::pair<size_t, size_t>, int64_t> ends;
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    int64_t clock = 0;
    size_t issued = 0;
    for (const Act& act : programs[rank]) {
      if (act.kind == Act::Kind::kIssue)
        ends[{rank, issued++}] = ++clock;
      else if (act.kind != Act::Kind::kQuery)
        clock += act.ns;
    }
  }
  return ends;
}

// A rule left out, which the exploration has to find.
enum class Fault { kNone, kIgnoresClocks, kIgnoresSleeps, kIgnoresUnread };

struct Moment {
  Snapshot snapshot;
  std::vector<size_t> next;                // act of each rank
  std::vector<std::vector<int64_t>> ends;  // of work that was read, by rank
  std::vector<std::pair<size_t, int64_t>> unread;
  std::map<std::tuple<size_t, size_t, size_t>, int64_t> told_until;
  std::optional<int64_t> only_queries_since;

  // Moments with equal keys have the same continuations.
  std::vector<int64_t> Key() const {
    std::vector<int64_t> key;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      const RankState& state = snapshot.ranks[rank];
      key.insert(key.end(), {static_cast<int64_t>(next[rank]), state.clock_ns,
                             state.closed ? 1 : 0, state.blocked ? 1 : 0,
                             state.limit.has_value() ? state.limit->ns : -1,
                             static_cast<int64_t>(ends[rank].size())});
    }
    for (const auto& [rank, end] : unread)
      key.insert(key.end(), {static_cast<int64_t>(rank), end});
    key.push_back(only_queries_since.value_or(-1));
    for (const auto& [query, until] : told_until) {
      const auto [rank, of, number] = query;
      key.insert(key.end(), {static_cast<int64_t>(rank), static_cast<int64_t>(of),
                             static_cast<int64_t>(number), until});
    }
    return key;
  }
};

class Explorer {
 public:
  Explorer(const Programs& programs, Fault fault)
      : programs_(programs), fault_(fault), truth_(EndsOfWork(programs)) {}

  void Run() {
    Moment start;
    for (size_t rank = 0; rank < programs_.size(); ++rank)
      start.snapshot.ranks.push_back(
          {.rank = static_cast<int32_t>(rank), .running_issuers = 1, .limit = {}});
    start.next.assign(programs_.size(), 0);
    start.ends.resize(programs_.size());
    Explore(start);
  }

  int wrong = 0;
  int stuck = 0;
  int answered_in_time = 0;  // "not yet" while some rank still ran
  int answered_late = 0;

 private:
  void Explore(const Moment& now) {
    if (wrong != 0 || stuck != 0 || !seen_.insert(now.Key()).second)
      return;
    bool moved = false;
    for (size_t rank = 0; rank < now.next.size(); ++rank) {
      const RankState& state = now.snapshot.ranks[rank];
      if (state.closed || state.blocked || state.limit.has_value())
        continue;
      moved = true;
      Moment then = now;
      Step(&then, rank);
      Explore(then);
    }
    Moment then = now;
    if (Look(&then)) {
      moved = true;
      Explore(then);
    }
    if (!moved)
      stuck += std::all_of(now.snapshot.ranks.begin(), now.snapshot.ranks.end(),
                           [](const RankState& state) { return state.closed; })
                   ? 0
                   : 1;
  }

  // --- The ranks

  const Act& ActOf(const Moment& moment, size_t rank) const {
    return programs_[rank][moment.next[rank]];
  }

  void Step(Moment* moment, size_t rank) {
    RankState& state = moment->snapshot.ranks[rank];
    if (moment->next[rank] == programs_[rank].size()) {
      state.closed = true;
      return;
    }
    const Act& act = ActOf(*moment, rank);
    switch (act.kind) {
      case Act::Kind::kCompute:
        state.clock_ns += act.ns;
        break;
      case Act::Kind::kSleep:
        state.limit = {state.clock_ns + act.ns, true, false};
        return;  // ExpireSleep resumes the rank
      case Act::Kind::kIssue:
        moment->unread.emplace_back(rank, ++state.clock_ns);
        break;
      case Act::Kind::kQuery: {
        const auto told = moment->told_until.find({rank, act.of, act.number});
        if (told == moment->told_until.end() || state.clock_ns >= told->second) {
          state.blocked = true;
          return;  // Answer resumes the rank
        }
        Check(*moment, rank, /*ended=*/false);
        break;
      }
    }
    ++moment->next[rank];
  }

  void Check(const Moment& moment, size_t rank, bool ended) {
    const Act& act = ActOf(moment, rank);
    const auto end = truth_.find({act.of, act.number});
    const bool has_ended =
        end != truth_.end() && end->second <= moment.snapshot.ranks[rank].clock_ns;
    wrong += ended == has_ended ? 0 : 1;
  }

  void Answer(Moment* moment, size_t rank, bool ended) {
    Check(*moment, rank, ended);
    moment->snapshot.ranks[rank].blocked = false;
    ++moment->next[rank];
  }

  // --- The session

  bool Look(Moment* moment) {
    if (!moment->unread.empty() && fault_ != Fault::kIgnoresUnread) {
      Read(moment);
      return true;
    }
    if (AnswerWhatIsKnown(moment))
      return true;
    const bool all_blocked = std::all_of(
        moment->snapshot.ranks.begin(), moment->snapshot.ranks.end(),
        [](const RankState& state) { return state.closed || state.blocked; });
    if (all_blocked ? DecideBlocked(moment) : DecideRunning(moment))
      return true;
    if (moment->unread.empty())
      return false;
    Read(moment);
    return true;
  }

  void Read(Moment* moment) {
    for (const auto& [rank, end] : moment->unread)
      moment->ends[rank].push_back(end);
    moment->unread.clear();
  }

  // The engine's part: the end is known.
  bool AnswerWhatIsKnown(Moment* moment) {
    for (size_t rank = 0; rank < moment->next.size(); ++rank) {
      if (!moment->snapshot.ranks[rank].blocked)
        continue;
      const Act& act = ActOf(*moment, rank);
      if (act.number >= moment->ends[act.of].size())
        continue;
      Answer(moment, rank,
             moment->ends[act.of][act.number] <= moment->snapshot.ranks[rank].clock_ns);
      moment->only_queries_since.reset();
      return true;
    }
    return false;
  }

  std::optional<OpenQuery> OldestQuery(const Moment& moment) const {
    std::optional<OpenQuery> oldest;
    for (const RankState& state : moment.snapshot.ranks)
      if (state.blocked && (!oldest.has_value() || state.clock_ns < oldest->asked_ns))
        oldest = OpenQuery{.asked_ns = state.clock_ns, .rank = state.rank};
    return oldest;
  }

  // `until`: as the engine bounds it, by other queries.
  void AnswerNotYet(Moment* moment, const OpenQuery& query, int64_t until) {
    const auto rank = static_cast<size_t>(query.rank);
    for (const RankState& state : moment->snapshot.ranks)
      if (state.blocked && state.rank != query.rank)
        until = std::min(until, state.clock_ns);
    const Act& act = ActOf(*moment, rank);
    moment->told_until[{rank, act.of, act.number}] = until;
    Answer(moment, rank, /*ended=*/false);
  }

  Snapshot Seen(const Moment& moment) const {
    Snapshot seen = moment.snapshot;
    seen.unread = !moment.unread.empty() && fault_ != Fault::kIgnoresUnread;
    for (RankState& state : seen.ranks) {
      if (fault_ == Fault::kIgnoresClocks && !state.limit.has_value())
        state.clock_ns += 100;
      if (fault_ == Fault::kIgnoresSleeps && state.limit.has_value())
        state.clock_ns = state.limit->ns + 100;
    }
    return seen;
  }

  bool DecideRunning(Moment* moment) {
    const auto query = OldestQuery(*moment);
    const PastDecisions past = DecidePast(Seen(*moment), query);
    if (past.answer_until_ns.has_value()) {
      ++answered_in_time;
      AnswerNotYet(moment, *query,
                   *past.answer_until_ns == kNoTime ? 0 : *past.answer_until_ns);
      return true;
    }
    return ExpireSleep(moment, query) || AnswerBesideSleepers(moment, query);
  }

  bool Rests(const RankState& state) const {
    return state.blocked || state.limit.has_value();
  }

  bool ExpireSleep(Moment* moment, const std::optional<OpenQuery>& query) {
    const auto next = FindNextWait(moment->snapshot);
    if (!next.has_value())
      return false;
    RankState& sleeper = moment->snapshot.ranks[next->index];
    const int64_t until = sleeper.limit->ns;
    if (query.has_value() && query->asked_ns <= until)
      return false;
    for (const size_t before :
         ThoseBefore(moment->snapshot, sleeper.rank, until, false))
      if (!Rests(moment->snapshot.ranks[before]))
        return false;
    sleeper.clock_ns = until;
    sleeper.limit.reset();
    ++moment->next[next->index];
    moment->only_queries_since.reset();
    return true;
  }

  bool AnswerBesideSleepers(Moment* moment, const std::optional<OpenQuery>& query) {
    if (!query.has_value() || !AnyoneSleeps(moment->snapshot))
      return false;
    for (const RankState& state : moment->snapshot.ranks)
      if (!state.closed && !Rests(state))
        return false;
    const int64_t limit = EarliestLimit(moment->snapshot);
    if (limit < query->asked_ns)
      return false;
    AnswerNotYet(moment, *query, limit);
    return true;
  }

  bool DecideBlocked(Moment* moment) {
    const auto query = OldestQuery(*moment);
    if (!query.has_value())
      return false;
    const BlockedDecision next =
        DecideAllBlocked(moment->snapshot, *query, moment->only_queries_since);
    if (!moment->only_queries_since.has_value())
      moment->only_queries_since =
          std::max(LatestClock(moment->snapshot), query->asked_ns);
    if (next.kind != BlockedDecision::Kind::kAnswer)
      return false;
    ++answered_late;
    AnswerNotYet(moment, *query, next.until_ns);
    return true;
  }

  const Programs& programs_;
  const Fault fault_;
  const std::map<std::pair<size_t, size_t>, int64_t> truth_;
  std::set<std::vector<int64_t>> seen_;
};

TEST(DecidePastTest, GivesTheRightAnswerInEveryOrder) {
  std::mt19937_64 random(20261129);
  int64_t in_time = 0, late = 0;
  for (int i = 0; i < 30000; ++i) {
    const Programs programs = RandomPrograms(&random);
    Explorer explorer(programs, Fault::kNone);
    explorer.Run();
    ASSERT_EQ(explorer.wrong, 0) << "world " << i;
    ASSERT_EQ(explorer.stuck, 0) << "world " << i;
    in_time += explorer.answered_in_time;
    late += explorer.answered_late;
  }
  EXPECT_GT(in_time, 1000);
  EXPECT_GT(late, 1000);
}

class FaultTest : public testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsFound) {
  std::mt19937_64 random(20261129);
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    const Programs programs = RandomPrograms(&random);
    Explorer explorer(programs, GetParam());
    explorer.Run();
    found += explorer.wrong != 0 ? 1 : 0;
  }
  EXPECT_GT(found, 20);
}

INSTANTIATE_TEST_SUITE_P(DecidePast, FaultTest,
                         testing::Values(Fault::kIgnoresClocks, Fault::kIgnoresSleeps,
                                         Fault::kIgnoresUnread));

RankState Blocked(int32_t rank, int64_t clock_ns,
                  std::optional<RankState::Limit> limit = std::nullopt) {
  return {.rank = rank, .blocked = true, .clock_ns = clock_ns, .limit = limit};
}

RankState Running(int32_t rank, int64_t clock_ns) {
  return {.rank = rank, .clock_ns = clock_ns, .running_issuers = 1, .limit = {}};
}

TEST(DecidePastTest, AMeetingDependsOnItsOtherMembersAlone) {
  const Snapshot snapshot{{Running(0, 5), Running(1, 9)}, false};
  OpenQuery query{.asked_ns = 7, .rank = 0};
  EXPECT_FALSE(DecidePast(snapshot, query).answer_until_ns.has_value());
  query.meets = true;
  EXPECT_EQ(DecidePast(snapshot, query).answer_until_ns, 9);
  query.needs_all_rest = true;
  EXPECT_FALSE(DecidePast(snapshot, query).answer_until_ns.has_value());
}

TEST(DecidePastTest, AnEarlierWaitOfABlockedRankExpiresFirst) {
  const Snapshot snapshot{
      {Running(0, 9), Blocked(1, 3, RankState::Limit{5, true, false})}, false};
  EXPECT_EQ(DecidePast(snapshot, std::nullopt).expiring, 1u);
  EXPECT_EQ(DecidePast(snapshot, OpenQuery{.asked_ns = 6, .rank = 1}).expiring, 1u);
  const PastDecisions past = DecidePast(snapshot, OpenQuery{.asked_ns = 4, .rank = 1});
  EXPECT_FALSE(past.expiring.has_value());
  EXPECT_EQ(past.answer_until_ns, 5) << "its other thread may issue work from then on";
  EXPECT_EQ(past.aborted_before_ns, 9);
}

TEST(DecidePastTest, NothingIsPastWhileSomethingIsUnreadOrNobodyRuns) {
  Snapshot snapshot{{Running(0, 9), Blocked(1, 3)}, true};
  const OpenQuery query{.asked_ns = 3, .rank = 1};
  EXPECT_EQ(DecidePast(snapshot, query).aborted_before_ns, 0);
  EXPECT_FALSE(DecidePast(snapshot, query).answer_until_ns.has_value());
  snapshot = {{Blocked(0, 9), Blocked(1, 3)}, false};
  EXPECT_FALSE(DecidePast(snapshot, query).answer_until_ns.has_value());
}

TEST(DecideAllBlockedTest, ALoopOfQueriesReachesLimitsAndThenEnds) {
  using Kind = BlockedDecision::Kind;
  const Snapshot snapshot{
      {Blocked(0, 9), Blocked(1, 3, RankState::Limit{20, true, false})}, false};
  OpenQuery query{.asked_ns = 9, .rank = 0};
  BlockedDecision next = DecideAllBlocked(snapshot, query, std::nullopt);
  EXPECT_EQ(next.kind, Kind::kAnswer);
  EXPECT_EQ(next.until_ns, 20);
  query.asked_ns = 21;
  next = DecideAllBlocked(snapshot, query, 9);
  EXPECT_EQ(next.kind, Kind::kLimit);
  EXPECT_EQ(next.index, 1u);
  const Snapshot without{{Blocked(0, 9), Blocked(1, 3)}, false};
  next = DecideAllBlocked(without, query, 9);
  EXPECT_EQ(next.kind, Kind::kAnswer);
  EXPECT_EQ(next.until_ns, 9 + kBeyondLatestClockNs);
  query.asked_ns = 9 + kBeyondLatestClockNs;
  EXPECT_EQ(DecideAllBlocked(without, query, 9).kind, Kind::kNothing);
}

}  // namespace
}  // namespace vrank::schedule
