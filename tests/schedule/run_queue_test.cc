// Model check of RunQueue: the threads of small programs act in one order, whatever
// their order in real time.
//
// A world has one or two drivers and up to four helpers, some of which others create in
// the middle and join. They issue, sleep, post semaphores, and wait for them with or
// without a limit. Each thread does what virtual_host does: it parks, awaits its turn
// once it is signalled, and stops at safe points. All interleavings of the threads that
// may continue are explored, but for the few worlds with more than a bound.

#include "schedule/run_queue.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/schedule/interleavings.h"

namespace vrank::schedule {
namespace {

struct Act {
  enum class Kind { kIssue, kSleep, kPost, kWait, kWaitLimited, kCreate, kJoin } kind;
  int64_t ns = 0;
  size_t object = 0;  // a semaphore, or a thread
};

struct World {
  std::vector<std::vector<Act>> programs;  // by thread; the first issues work
  std::vector<bool> is_created;            // by an act of another thread
};

World RandomWorld(std::mt19937_64* random, size_t most_threads) {
  const auto below = [random](uint64_t most) { return (*random)() % most; };
  World world;
  const size_t threads = 2 + below(most_threads - 1);
  const bool second_issues = below(3) == 0;
  for (size_t thread = 0; thread < threads; ++thread) {
    const bool issues = thread == 0 || (thread == 1 && second_issues);
    std::vector<Act> acts(1 + below(4));
    for (Act& act : acts) {
      act.kind = static_cast<Act::Kind>(issues ? below(5) : 1 + below(4));
      act.ns = static_cast<int64_t>(1 + below(4));
      act.object = below(2);
    }
    // A driver issues work.
    if (issues)
      acts.front().kind = Act::Kind::kIssue;
    world.programs.push_back(std::move(acts));
  }
  world.is_created.resize(threads);
  for (size_t thread = second_issues ? 2 : 1; thread < threads; ++thread) {
    // An earlier one creates it, any other one joins it.
    const auto insert = [&](Act::Kind kind, size_t by) {
      auto& acts = world.programs[by];
      const auto at = static_cast<int64_t>(1 + below(acts.size()));
      acts.insert(acts.begin() + at, {.kind = kind, .object = thread});
    };
    if (below(3) == 0) {
      world.is_created[thread] = true;
      insert(Act::Kind::kCreate, below(thread));
    }
    const size_t joins = below(threads);
    if (joins != thread && below(2) == 0)
      insert(Act::Kind::kJoin, joins);
  }
  return world;
}

// A rule that is left out, to test the test.
enum class Fault {
  kNone,
  kTiesByArrival,  // a signalled thread does not await its turn
  kNoStops,        // a driver does not wait for other threads at safe points
  kNoOwedStop,     // a driver does not stop for a thread that it has signalled
  kEagerGrants,    // a limit expires while a thread can run
  kNoStartFirst,   // a thread goes on beside the one that it has created
};

// thread, act, its clock, whether a limit ended it.
using Log = std::vector<std::tuple<size_t, size_t, int64_t, bool>>;

// One run, in which choose(n) selects one of n threads that may continue.
template <typename Choose>
class Run {
 public:
  Run(const World& world, Fault fault, Choose choose)
      : world_(world), fault_(fault), choose_(choose), players_(world.programs.size()) {
    for (size_t i = 0; i < players_.size(); ++i)
      if (!world_.is_created[i])
        queue_.Add(&players_[i].thread, 0);
    for (size_t i = 0; i < players_.size(); ++i)
      if (world_.programs[i].front().kind == Act::Kind::kIssue)
        queue_.BeginIssuing(&players_[i].thread);
    // They start one after the other, as threads do that one of them has created.
    for (size_t i = 0; i < players_.size(); ++i)
      players_[i].phase =
          world_.is_created[i] ? Phase::kNotCreated : Phase::kAwaitsTurn;
  }

  Log Play() {
    for (;;) {
      std::vector<Player*> able;
      for (Player& player : players_)
        if (Able(player))
          able.push_back(&player);
      const bool eager = fault_ == Fault::kEagerGrants && HasLimit();
      const size_t choices = able.size() + (eager && !able.empty() ? 1 : 0);
      if (choices == 0) {
        if (!HasLimit())
          return log_;  // all have ended or wait for ever
        Grant();
        continue;
      }
      const size_t chosen = choices == 1 ? 0 : choose_(choices);
      if (chosen == able.size())
        Grant();
      else
        Step(able[chosen]);
    }
  }

 private:
  enum class Phase {
    kNotCreated,
    kActs,
    kAwaitsTurn,
    kAwaitsStart,
    kStops,
    kWaits,
    kSleepsAlone,
    kOver
  };
  struct Player {
    Thread thread;
    Phase phase = Phase::kActs;
    size_t next = 0;  // act
    DriverWait alone{};
    const Player* created = nullptr;  // it lets that one run first
    int ended = 0;                    // what a join takes
  };

  bool Issues(const Player& player) const { return player.thread.issues; }
  int64_t Clock(const Player& player) const {
    return Issues(player) ? process_ns_ : player.thread.clock_ns.load();
  }
  const Act& Current(const Player& player) const {
    return world_.programs[Index(player)][player.next];
  }
  size_t Index(const Player& player) const {
    return static_cast<size_t>(&player - players_.data());
  }
  int& Units(const Player& player) {
    const Act& act = Current(player);
    return act.kind == Act::Kind::kJoin ? players_[act.object].ended
                                        : units_[act.object];
  }
  const void* Object(const Player& player) { return &Units(player); }

  bool Able(const Player& player) const {
    switch (player.phase) {
      case Phase::kActs:
        return true;
      case Phase::kAwaitsTurn:
        return fault_ == Fault::kTiesByArrival ||
               queue_.FirstBefore(&player.thread) == nullptr;
      case Phase::kAwaitsStart:
        return !queue_.IsInTurn(player.created->thread) ||
               !queue_.GoesBefore(player.created->thread, &player.thread);
      case Phase::kStops:
        return fault_ == Fault::kNoStops ||
               queue_.FirstBefore(&player.thread) == nullptr;
      case Phase::kWaits:
        return player.thread.signalled || player.thread.expired;
      case Phase::kNotCreated:
      case Phase::kSleepsAlone:
      case Phase::kOver:
        return false;
    }
    return false;
  }

  bool HasLimit() const { return queue_.EarliestLimit() != kNever; }
  // What the emulator does when no thread can run.
  void Grant() {
    const int64_t limit_ns = queue_.EarliestLimit();
    process_ns_ = std::max(process_ns_, limit_ns);
    Thread* const first = queue_.Earliest();
    if (first != nullptr && first->deadline_ns <= limit_ns) {
      queue_.Release(first);
      return;
    }
    for (Player& player : players_)
      if (player.phase == Phase::kSleepsAlone &&
          player.alone.deadline_ns <= process_ns_) {
        queue_.RemoveDriverWait(&player.alone);
        Done(&player, true);
        BeginStop(&player, /*over=*/true);
        return;
      }
  }

  void Done(Player* player, bool by_limit) {
    log_.emplace_back(Index(*player), player->next++, Clock(*player), by_limit);
    player->phase = Phase::kActs;
  }

  void BeginStop(Player* player, bool over) {
    const bool awaited =
        player->thread.owes_stop || player->thread.state != Thread::State::kRunning;
    if (!awaited && process_ns_ < queue_.Gate())
      return;
    queue_.Stop(&player->thread, over);
    player->phase = Phase::kStops;
  }

  void Step(Player* player) {
    Thread& thread = player->thread;
    switch (player->phase) {
      case Phase::kStops: {
        Thread* const next = queue_.Earliest();
        if (next != nullptr && next->deadline_ns <= process_ns_)
          queue_.Release(next);
        else
          player->phase = Phase::kActs;
        return;
      }
      case Phase::kAwaitsStart:
        player->phase = Phase::kActs;
        if (Issues(*player))
          BeginStop(player, /*over=*/false);
        return;
      case Phase::kAwaitsTurn:
        if (thread.signalled)
          Take(player);
        else
          player->phase = Phase::kActs;
        return;
      case Phase::kWaits:
        if (thread.signalled) {
          player->phase = Phase::kAwaitsTurn;
          return;
        }
        queue_.Unpark(&thread, process_ns_, Thread::State::kRunning);
        Done(player, true);
        return;
      case Phase::kActs:
        if (player->next == world_.programs[Index(*player)].size()) {
          player->phase = Phase::kOver;
          player->ended = 1;
          if (Thread* const joins = queue_.FirstWaiting(&player->ended))
            queue_.Call(joins, Clock(*player));
          queue_.Remove(&thread);
        } else {
          Begin(player);
        }
        return;
      case Phase::kNotCreated:
      case Phase::kSleepsAlone:
      case Phase::kOver:
        return;
    }
  }

  // Its turn has come after a signal.
  void Take(Player* player) {
    Thread& thread = player->thread;
    if (Units(*player) == 0) {
      queue_.ParkAgain(&thread);
      player->phase = Phase::kWaits;
      return;
    }
    --Units(*player);
    queue_.Unpark(&thread, process_ns_, Thread::State::kRunning);
    Done(player, false);
  }

  void Begin(Player* player) {
    Thread& thread = player->thread;
    const Act& act = Current(*player);
    const bool issues = Issues(*player);
    switch (act.kind) {
      case Act::Kind::kIssue:
        process_ns_ += act.ns;
        Done(player, false);
        BeginStop(player, /*over=*/true);
        return;
      case Act::Kind::kPost:
        if (Thread* const called = queue_.FirstWaiting(Object(*player))) {
          queue_.Call(called, Clock(*player));
          if (issues && fault_ != Fault::kNoOwedStop)
            thread.owes_stop = true;
        }
        ++Units(*player);
        Done(player, false);
        if (issues && fault_ != Fault::kNoOwedStop)
          BeginStop(player, /*over=*/false);
        return;
      case Act::Kind::kSleep:
        BeginSleep(player, Clock(*player) + act.ns);
        return;
      case Act::Kind::kCreate: {
        Player* const created = &players_[act.object];
        queue_.Add(&created->thread, Clock(*player));
        created->phase = Phase::kActs;
        Done(player, false);
        if (fault_ == Fault::kNoStartFirst)
          return;
        player->created = created;
        player->phase = Phase::kAwaitsStart;
        return;
      }
      case Act::Kind::kWait:
      case Act::Kind::kWaitLimited:
      case Act::Kind::kJoin:
        if (!queue_.AnyoneSignalled(Object(*player)) && Units(*player) > 0) {
          --Units(*player);
          Done(player, false);
          return;
        }
        queue_.Park(
            &thread,
            act.kind == Act::Kind::kWaitLimited ? Clock(*player) + act.ns : kNever,
            Object(*player), WaitsFor::kObject);
        player->phase = Phase::kWaits;
        return;
    }
  }

  void BeginSleep(Player* player, int64_t deadline_ns) {
    const auto issuers = std::count_if(players_.begin(), players_.end(),
                                       [](const Player& p) { return p.thread.issues; });
    if (!Issues(*player) || issuers > 1) {
      queue_.Park(&player->thread, deadline_ns, nullptr, WaitsFor::kLimitOnly);
      player->phase = Phase::kWaits;
      return;
    }
    player->alone = {.deadline_ns = deadline_ns, .object = nullptr, .sleeps = true};
    queue_.AddDriverWait(&player->alone);
    // Other threads do not wait for it.
    queue_.Block(&player->thread);
    player->phase = Phase::kSleepsAlone;
  }

  const World& world_;
  const Fault fault_;
  Choose choose_;
  std::vector<Player> players_;
  RunQueue queue_;
  std::array<int, 2> units_{};
  int64_t process_ns_ = 0;
  Log log_;
};

Explored<Log> Explore(const World& world, Fault fault, size_t most_orders) {
  return ExploreOrders<Log>(
      most_orders, [&](auto choose) { return Run(world, fault, choose).Play(); });
}

int WorldsWithSeveralLogs(Fault fault, int worlds) {
  std::mt19937_64 random(20261128);
  int several = 0;
  for (int i = 0; i < worlds; ++i)
    several += Explore(RandomWorld(&random, 6), fault, 200).logs.size() > 1;
  return several;
}

TEST(RunQueueTest, KnowsWhetherAnotherDriverHasALimit) {
  RunQueue queue;
  Thread first, second, helper;
  for (Thread* const thread : {&first, &second, &helper})
    queue.Add(thread, 0);
  queue.BeginIssuing(&first);
  queue.BeginIssuing(&second);
  queue.Park(&helper, 10, nullptr, WaitsFor::kLimitOnly);
  EXPECT_FALSE(queue.AnotherDriverHasLimit(first));
  queue.Park(&second, kNever, nullptr, WaitsFor::kObject);
  EXPECT_FALSE(queue.AnotherDriverHasLimit(first));
  queue.Unpark(&second, 0, Thread::State::kRunning);
  queue.Park(&second, 20, nullptr, WaitsFor::kObject);
  EXPECT_TRUE(queue.AnotherDriverHasLimit(first));
  EXPECT_FALSE(queue.AnotherDriverHasLimit(second));
  queue.Unpark(&second, 0, Thread::State::kRunning);
  EXPECT_FALSE(queue.AnotherDriverHasLimit(first));
}

TEST(RunQueueTest, ASleepThatAHelperMayCutShortForAnotherDriverIsNotPassed) {
  RunQueue queue;
  Thread sleeper, driver, helper;
  for (Thread* const thread : {&sleeper, &driver, &helper})
    queue.Add(thread, 0);
  queue.BeginIssuing(&sleeper);
  queue.Park(&helper, 8, nullptr, WaitsFor::kLimitOnly);
  EXPECT_TRUE(queue.MaySleepThrough(sleeper, 10));  // it runs by its own clock
  queue.BeginIssuing(&driver);
  queue.Park(&driver, kNever, &queue, WaitsFor::kObject);
  EXPECT_FALSE(queue.MaySleepThrough(sleeper, 10));
  EXPECT_TRUE(queue.MaySleepThrough(sleeper, 8));
}

TEST(RunQueueTest, KnowsWhetherAnotherThreadMayRun) {
  RunQueue queue;
  Thread self, other;
  queue.Add(&self, 0);
  EXPECT_FALSE(queue.AnotherMayRun(self));
  queue.Add(&other, 0);
  EXPECT_TRUE(queue.AnotherMayRun(self));
  queue.Park(&other, kNever, &queue, WaitsFor::kObject);
  EXPECT_FALSE(queue.AnotherMayRun(self));
  queue.Unpark(&other, 0, Thread::State::kRunning);
  queue.Park(&other, 10, &queue, WaitsFor::kObject);
  EXPECT_TRUE(queue.AnotherMayRun(self));
}

TEST(RunQueueWorldsTest, WhateverArrivesFirstThreadsActInOneOrder) {
  std::mt19937_64 random(1);
  int in_part = 0;
  for (int i = 0; i < 100'000; ++i) {
    const World world = RandomWorld(&random, 6);
    const Explored<Log> explored = Explore(world, Fault::kNone, 1000);
    ASSERT_EQ(explored.logs.size(), 1u) << "world " << i;
    in_part += explored.all ? 0 : 1;
  }
  EXPECT_LT(in_part, 200);
}

TEST(RunQueueWorldsTest, WhatIsLeftOutIsFound) {
  constexpr int kWorlds = 2000;
  for (const Fault fault : {Fault::kTiesByArrival, Fault::kNoStops, Fault::kNoOwedStop,
                            Fault::kEagerGrants, Fault::kNoStartFirst})
    EXPECT_GT(WorldsWithSeveralLogs(fault, kWorlds), kWorlds / 50)
        << static_cast<int>(fault);
}

}  // namespace
}  // namespace vrank::schedule
