// The functions that choose whose wait ends next, in small worlds: all orders in which
// ranks may run in real time are tried, and the session's loop grants as they say.
//
// A world has up to three ranks. A rank computes (its clock moves on), sleeps, writes a
// byte that the others may see, or looks how many of them there are. Without waits for
// each other, sleeps must end in the order of virtual time, then of ranks; and who
// wakes up sees every byte that was written before.

#include "schedule/decide.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace vrank::schedule {
namespace {

struct Act {
  enum class Kind { kCompute, kSleep, kWrite } kind;
  int64_t ns;
};

struct World {
  std::vector<std::vector<Act>> programs;  // by rank
};

World RandomWorld(std::mt19937_64* random) {
  World world;
  const auto below = [random](uint64_t most) { return (*random)() % most; };
  const size_t ranks = 2 + below(2);
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<Act> acts(1 + below(ranks == 2 ? 5 : 3));
    for (Act& act : acts) {
      act.kind = static_cast<Act::Kind>(below(3));
      act.ns = static_cast<int64_t>(1 + below(4));
    }
    world.programs.push_back(std::move(acts));
  }
  return world;
}

using Grants = std::vector<std::pair<int64_t, int32_t>>;  // time, rank

struct Written {
  int64_t ns;
  int32_t rank;
};

// Where all ranks are, in real time.
struct Moment {
  Snapshot snapshot;
  std::vector<size_t> next;  // act of each rank
  std::vector<Written> written;
  Grants grants;
};

class Explorer {
 public:
  // `eager`: grants without waiting for those that could act before, which is wrong.
  Explorer(const World& world, bool eager) : world_(world), eager_(eager) {}

  // Tries all orders. What it finds is in `ends` and `violations`.
  void Run() {
    Moment start;
    for (size_t rank = 0; rank < world_.programs.size(); ++rank)
      start.snapshot.ranks.push_back({.rank = static_cast<int32_t>(rank),
                                      .closed = false,
                                      .blocked = false,
                                      .clock_ns = 0,
                                      .running_issuers = 1,
                                      .limit = {}});
    start.next.assign(world_.programs.size(), 0);
    Explore(start);
  }

  std::set<Grants> ends;
  int violations = 0;  // wake-ups before a write of an earlier time
  int stuck = 0;

 private:
  void Explore(const Moment& now) {
    bool moved = false;
    for (size_t rank = 0; rank < now.next.size(); ++rank) {
      const RankState& state = now.snapshot.ranks[rank];
      if (state.closed || state.limit.has_value())
        continue;
      moved = true;
      Moment then = now;
      Step(&then, rank);
      Explore(then);
    }
    // The session looks at any time.
    if (const auto next = FindNextWait(now.snapshot);
        next.has_value() && next->at_once && MayGrant(now, next->index)) {
      moved = true;
      Moment then = now;
      Grant(&then, next->index);
      Explore(then);
    }
    if (moved)
      return;
    const bool over = std::all_of(now.snapshot.ranks.begin(), now.snapshot.ranks.end(),
                                  [](const RankState& state) { return state.closed; });
    stuck += over ? 0 : 1;
    if (over)
      ends.insert(now.grants);
  }

  void Step(Moment* moment, size_t rank) const {
    RankState& state = moment->snapshot.ranks[rank];
    const std::vector<Act>& acts = world_.programs[rank];
    if (moment->next[rank] == acts.size()) {
      state.closed = true;
      return;
    }
    const Act& act = acts[moment->next[rank]++];
    switch (act.kind) {
      case Act::Kind::kCompute:
        state.clock_ns += act.ns;
        break;
      case Act::Kind::kSleep:
        state.limit = {state.clock_ns + act.ns, true, false};
        break;
      case Act::Kind::kWrite:
        moment->written.push_back({state.clock_ns, state.rank});
        break;
    }
  }

  // A rank rests here where it sleeps.
  bool MayGrant(const Moment& moment, size_t index) const {
    const RankState& sleeper = moment.snapshot.ranks[index];
    const auto before =
        ThoseBefore(moment.snapshot, sleeper.rank, sleeper.limit->ns, false);
    return eager_ || std::all_of(before.begin(), before.end(), [&](size_t other) {
             return moment.snapshot.ranks[other].limit.has_value();
           });
  }

  void Grant(Moment* moment, size_t index) {
    RankState& sleeper = moment->snapshot.ranks[index];
    sleeper.clock_ns = sleeper.limit->ns;
    sleeper.limit.reset();
    moment->grants.emplace_back(sleeper.clock_ns, sleeper.rank);
    // What every rank does by itself up to that time, were it alone.
    size_t due = 0;
    for (size_t rank = 0; rank < world_.programs.size(); ++rank)
      if (rank != index)
        due += WrittenBefore(rank, {sleeper.clock_ns, sleeper.rank});
    const auto seen = std::count_if(
        moment->written.begin(), moment->written.end(), [&](const Written& byte) {
          return byte.rank != sleeper.rank &&
                 std::pair(byte.ns, byte.rank) <
                     std::pair(sleeper.clock_ns, sleeper.rank);
        });
    violations += static_cast<size_t>(seen) < due ? 1 : 0;
  }

  size_t WrittenBefore(size_t rank, std::pair<int64_t, int32_t> place) const {
    int64_t clock = 0;
    size_t written = 0;
    for (const Act& act : world_.programs[rank]) {
      if (act.kind != Act::Kind::kWrite)
        clock += act.ns;
      else if (std::pair(clock, static_cast<int32_t>(rank)) < place)
        ++written;
    }
    return written;
  }

  const World& world_;
  const bool eager_;
};

TEST(DecideTest, SleepsEndInOneOrderHoweverFastRanksCompute) {
  std::mt19937_64 random(20261128);
  size_t grants = 0;
  for (int i = 0; i < 3000; ++i) {
    const World world = RandomWorld(&random);
    Explorer explorer(world, /*eager=*/false);
    explorer.Run();
    ASSERT_EQ(explorer.ends.size(), 1u) << "world " << i;
    ASSERT_EQ(explorer.violations, 0) << "world " << i;
    ASSERT_EQ(explorer.stuck, 0) << "world " << i;
    const Grants& order = *explorer.ends.begin();
    ASSERT_TRUE(std::is_sorted(order.begin(), order.end())) << "world " << i;
    grants += order.size();
  }
  EXPECT_GT(grants, 3000u);
}

// The same exploration finds a session that does not wait.
TEST(DecideTest, GrantsThatDoNotWaitAreFound) {
  std::mt19937_64 random(20261128);
  int orders = 0, violations = 0;
  for (int i = 0; i < 60; ++i) {
    const World world = RandomWorld(&random);
    Explorer explorer(world, /*eager=*/true);
    explorer.Run();
    orders += explorer.ends.size() > 1 ? 1 : 0;
    violations += explorer.violations > 0 ? 1 : 0;
  }
  EXPECT_GT(orders, 6);
  EXPECT_GT(violations, 6);
}

RankState State(int32_t rank, int64_t clock_ns) {
  return {.rank = rank, .clock_ns = clock_ns, .running_issuers = 1, .limit = {}};
}

TEST(DecideTest, WhatIsUnreadHoldsUpWhatIsPast) {
  Snapshot snapshot{{State(0, 7), State(1, 5)}, false};
  EXPECT_EQ(EarliestClock(snapshot), 5);
  EXPECT_EQ(EarliestIssue(snapshot, -1), 5);
  EXPECT_EQ(EarliestIssue(snapshot, 1), 7);
  EXPECT_EQ(LatestClock(snapshot), 7);
  snapshot.unread = true;
  EXPECT_EQ(EarliestClock(snapshot), 0);
  EXPECT_EQ(EarliestIssue(snapshot, 1), 0);
}

TEST(DecideTest, ASleeperIssuesNothingUnlessAnotherThreadOfItDoes) {
  Snapshot snapshot{{State(0, 7), State(1, 5)}, false};
  snapshot.ranks[1].limit = {20, true, false};
  EXPECT_EQ(EarliestIssue(snapshot, -1), 7);
  EXPECT_EQ(EarliestIssue(snapshot, 0), 20);
  snapshot.ranks[1].running_issuers = 2;
  EXPECT_EQ(EarliestIssue(snapshot, 0), 5);
  // One that waits in the emulator issues nothing; a thread beside it may wake up.
  snapshot.ranks[1].blocked = true;
  EXPECT_EQ(EarliestIssue(snapshot, 0), 20);
  EXPECT_EQ(EarliestClock(snapshot), 7);
  snapshot.ranks[1].limit->sleeps = false;
  EXPECT_EQ(EarliestIssue(snapshot, 0), kNoTime);
}

TEST(DecideTest, ABlockedRanksLimitComesBeforeALaterOneElsewhere) {
  Snapshot snapshot{{State(0, 7), State(1, 5)}, false};
  snapshot.ranks[1].blocked = true;
  snapshot.ranks[1].limit = {6, false, false};
  EXPECT_FALSE(FindNextWait(snapshot).has_value()) << "the emulator's to end";
  EXPECT_EQ(FindBlockedBefore(snapshot, 7, false), 1u);
  EXPECT_FALSE(FindBlockedBefore(snapshot, 6, false).has_value());
  snapshot.ranks[0].limit = {9, true, false};
  ASSERT_TRUE(FindNextWait(snapshot).has_value());
  EXPECT_EQ(FindNextWait(snapshot)->index, 1u);
  EXPECT_TRUE(FindNextWait(snapshot)->at_once) << "a sleep comes later";
  snapshot.ranks[0].limit->ns = 6;
  EXPECT_EQ(FindNextWait(snapshot)->index, 0u) << "the lower rank, at one time";
  // A turn that nobody else can bring.
  snapshot.ranks[0].limit.reset();
  snapshot.ranks[1].limit = {6, true, true};
  EXPECT_EQ(FindNextWait(snapshot)->index, 1u);
  EXPECT_FALSE(FindBlockedBefore(snapshot, 7, false).has_value());
  EXPECT_EQ(FindBlockedBefore(snapshot, 7, true), 1u);
}

}  // namespace
}  // namespace vrank::schedule
