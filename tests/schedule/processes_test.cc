// Model check of NextStopStep with RunQueue: the threads of the process that issues
// work and the processes that follow it act in one order, whatever their order in real
// time.
//
// A world has a driver, up to three helpers and up to three other processes. The driver
// issues work; it and the helpers start the processes, exchange bytes with them through
// pipes, wait for their end, and post semaphores; all sleep and wait with limits. The
// other processes act as soon as they can, beside the owner, since nothing but the
// kernel orders them. Each pipe has one reader. All interleavings are explored, but for
// the few worlds with more than a bound.

#include "schedule/processes.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "schedule/run_queue.h"
#include "tests/schedule/interleavings.h"

namespace vrank::schedule {
namespace {

enum class Kind {
  kIssue,
  kSleep,
  kWrite,
  kRead,
  kReadLimited,
  kStart,
  kReap,
  kPost,
  kWait,
  kWaitLimited
};
struct Act {
  Kind kind;
  int64_t ns = 0;
  size_t object = 0;  // a process or, of the owner's own waits, a semaphore
};
using Program = std::vector<Act>;

struct World {
  std::vector<Program> threads;  // of the owner; the first issues work
  std::vector<Program> processes;
};

World RandomWorld(std::mt19937_64* random) {
  const auto below = [random](uint64_t most) { return (*random)() % most; };
  World world;
  world.threads.resize(1 + below(4));
  world.processes.resize(1 + below(3));
  // Who reads what a process writes, and awaits its end.
  std::vector<size_t> readers(world.processes.size());
  for (size_t& reader : readers)
    reader = below(world.threads.size());
  for (size_t thread = 0; thread < world.threads.size(); ++thread) {
    Program& program = world.threads[thread];
    if (thread == 0) {
      program.push_back({Kind::kIssue, 1});
      for (size_t process = 0; process < world.processes.size(); ++process)
        if (below(4) != 0)
          program.push_back({Kind::kStart, 0, process});
    }
    const size_t acts = 1 + below(6);
    for (size_t i = 0; i < acts; ++i) {
      Act act{.kind = Kind::kSleep,
              .ns = static_cast<int64_t>(1 + below(4)),
              .object = below(world.processes.size())};
      const bool reads = readers[act.object] == thread;
      switch (below(7)) {
        case 0:
          act.kind = thread == 0 ? Kind::kIssue : Kind::kSleep;
          break;
        case 1:
          break;
        case 2:
          act.kind = below(3) == 0 ? Kind::kStart : Kind::kWrite;
          break;
        case 3:
          act.kind = reads ? Kind::kRead : Kind::kWrite;
          break;
        case 4:
          act.kind = reads ? Kind::kReadLimited : Kind::kSleep;
          break;
        case 5:
          act.kind = reads ? Kind::kReap : Kind::kPost;
          break;
        case 6:
          // The driver's semaphore is its own: which waiter of the kernel takes a unit
          // first is the kernel's choice.
          act.kind = below(2) == 0 ? Kind::kWait : Kind::kWaitLimited;
          break;
      }
      if (act.kind == Kind::kPost)
        act.object = below(2);
      else if (act.kind == Kind::kWait || act.kind == Kind::kWaitLimited)
        act.object = thread == 0 ? 0 : 1;
      program.push_back(act);
    }
  }
  for (Program& program : world.processes) {
    const size_t acts = 1 + below(6);
    for (size_t i = 0; i < acts; ++i) {
      constexpr Kind kKinds[] = {Kind::kSleep, Kind::kWrite, Kind::kRead,
                                 Kind::kReadLimited};
      program.push_back({kKinds[below(4)], static_cast<int64_t>(1 + below(4))});
    }
  }
  return world;
}

// A rule that is left out, to test the test.
enum class Fault {
  kNone,
  kNoSettling,       // the owner does not wait until other processes wait
  kWriterGoesOn,     // ... nor does a helper that has written to one
  kWokenGoesOn,      // ... nor does a helper that one has woken
  kNoTurns,          // a helper does not await its turn
  kLateHelpers,      // a process's timeout expires before an earlier one of a helper
  kTiesByArrival,    // of equal timeouts of processes any may expire
  kAllLimitsAtOnce,  // what follows from a timeout is not waited for
};

// thread or process, act, its clock, whether a limit ended it.
using Log = std::vector<std::tuple<size_t, size_t, int64_t, bool>>;
struct Logs {
  Log owner;
  std::vector<Log> processes;
  // Timeouts that expired while another process could run, or an earlier one had not.
  int out_of_order = 0;
  auto operator<=>(const Logs&) const = default;
};

// One run, in which choose(n) selects one of n that may continue.
template <typename Choose>
class Run {
 public:
  Run(const World& world, Fault fault, Choose choose)
      : world_(world),
        fault_(fault),
        choose_(choose),
        players_(world.threads.size()),
        followers_(world.processes.size()) {
    for (Player& player : players_)
      queue_.Add(&player.thread, 0);
    queue_.BeginIssuing(&players_[0].thread);
    logs_.processes.resize(followers_.size());
    pipes_.resize(followers_.size());
  }

  Logs Play() {
    std::vector<size_t> able;
    for (;;) {
      able.clear();
      for (size_t i = 0; i < players_.size(); ++i)
        if (Able(players_[i]))
          able.push_back(i);
      for (size_t i = 0; i < followers_.size(); ++i)
        if (CanRun(followers_[i]))
          able.push_back(players_.size() + i);
      if (able.empty()) {
        if (!Grant())
          return logs_;  // all have ended or wait for ever
        continue;
      }
      const size_t chosen = able[able.size() == 1 ? 0 : choose_(able.size())];
      if (chosen < players_.size())
        Step(&players_[chosen]);
      else
        StepOf(&followers_[chosen - players_.size()]);
    }
  }

 private:
  enum class Phase { kActs, kAwaitsTurn, kStops, kSettles, kWaits, kWaitsAlone, kOver };
  struct Player {
    Thread thread;
    Phase phase = Phase::kAwaitsTurn;
    size_t next = 0;     // act
    bool begun = false;  // ... it has stopped before the act
    bool took = false;   // ... its wait is over
  };
  // A process that moves no clock.
  struct Follower {
    enum class State { kNone, kActs, kWaits, kOver } state = State::kNone;
    size_t next = 0;
    int64_t limit_ns = kNever;
    bool expired = false;
    int64_t reached_ns = 0, reached_turn = 0;  // ThreadState
  };
  struct Pipe {
    int down = 0, up = 0;  // bytes
  };

  // --- The owner's clock, as GuestChannel has it
  int64_t ProcessNow() const { return std::max(process_ns_, reached_ns_); }
  int64_t OthersNow() const {
    return others_reached_turn_ == others_turn_ + 1 ? others_reached_ns_ : ProcessNow();
  }
  void ReachForOthers(int64_t ns) {
    others_reached_ns_ = ns;
    others_reached_turn_ = others_turn_ + 1;
  }
  bool IsDriver(const Player& player) const { return &player == players_.data(); }
  int64_t Clock(const Player& player) const {
    return IsDriver(player) ? ProcessNow() : player.thread.clock_ns.load();
  }
  int64_t Clock(const Follower& follower) const {
    return follower.reached_turn == others_turn_ + 1 ? follower.reached_ns
                                                     : OthersNow();
  }
  // A thread of the owner may have woken another process.
  void Stir(const Player& player) {
    const int64_t now_ns = Clock(player);
    if (!IsDriver(player) &&
        (others_reached_turn_ != others_turn_ + 1 || others_reached_ns_ < now_ns))
      ReachForOthers(now_ns);
    stirred_ = true;
  }

  size_t Index(const Player& player) const {
    return static_cast<size_t>(&player - players_.data());
  }
  const Act& Current(const Player& player) const {
    return world_.threads[Index(player)][player.next];
  }
  static bool IsOfPipe(Kind kind) {
    return kind == Kind::kRead || kind == Kind::kReadLimited || kind == Kind::kReap;
  }
  // Whether what it waits for is there.
  bool IsThere(const Player& player) const {
    const Act& act = Current(player);
    if (act.kind == Kind::kReap)
      return followers_[act.object].state == Follower::State::kOver;
    return IsOfPipe(act.kind) ? pipes_[act.object].up > 0 : units_[act.object] > 0;
  }
  void TakeIt(const Player& player) {
    const Act& act = Current(player);
    if (act.kind == Kind::kReap)
      return;
    if (IsOfPipe(act.kind))
      --pipes_[act.object].up;
    else
      --units_[act.object];
  }

  // --- Other processes
  size_t Index(const Follower& follower) const {
    return static_cast<size_t>(&follower - followers_.data());
  }
  bool CanRun(const Follower& follower) const {
    switch (follower.state) {
      case Follower::State::kActs:
        return true;
      case Follower::State::kWaits:
        return follower.expired ||
               (world_.processes[Index(follower)][follower.next].kind != Kind::kSleep &&
                pipes_[Index(follower)].down > 0);
      case Follower::State::kNone:
      case Follower::State::kOver:
        return false;
    }
    return false;
  }
  bool AnyFollowerRuns() const {
    return std::any_of(followers_.begin(), followers_.end(),
                       [this](const Follower& f) { return CanRun(f); });
  }
  void StepOf(Follower* follower) {
    const size_t index = Index(*follower);
    const Program& program = world_.processes[index];
    if (follower->state == Follower::State::kActs && follower->next == program.size()) {
      follower->state = Follower::State::kOver;
      return;
    }
    const Act& act = program[follower->next];
    const auto done = [&](bool by_limit) {
      follower->state = Follower::State::kActs;
      follower->limit_ns = kNever;
      follower->expired = false;
      logs_.processes[index].emplace_back(index, follower->next++, Clock(*follower),
                                          by_limit);
    };
    if (act.kind == Kind::kWrite) {
      ++pipes_[index].up;
      done(false);
    } else if (follower->expired) {
      follower->reached_ns = follower->limit_ns;
      follower->reached_turn = others_turn_ + 1;
      done(true);
    } else if (act.kind != Kind::kSleep && pipes_[index].down > 0) {
      --pipes_[index].down;
      done(false);
    } else {
      follower->state = Follower::State::kWaits;
      if (act.kind != Kind::kRead)
        follower->limit_ns = Clock(*follower) + act.ns;
    }
  }
  ProcessLimit LimitOf(const Follower& follower) const {
    const bool waits = follower.state == Follower::State::kWaits && !follower.expired;
    return waits && follower.limit_ns != kNever
               ? ProcessLimit{follower.limit_ns,
                              static_cast<uint32_t>(1 + Index(follower))}
               : ProcessLimit{};
  }
  ProcessLimit EarliestLimit() {
    ProcessLimit earliest;
    for (const Follower& follower : followers_) {
      const ProcessLimit limit = LimitOf(follower);
      if (fault_ == Fault::kTiesByArrival && limit.ns != kNever &&
          limit.ns == earliest.ns && choose_(2) == 1)
        earliest = limit;
      earliest = std::min(earliest, limit);
    }
    return earliest;
  }
  void CheckOrder(const ProcessLimit& expires) {
    ProcessLimit earliest{queue_.EarliestLimit()};
    for (const Follower& follower : followers_)
      earliest = std::min(earliest, LimitOf(follower));
    if (AnyFollowerRuns() || expires != earliest)
      ++logs_.out_of_order;
  }
  void Expire(const ProcessLimit& limit) {
    CheckOrder(limit);
    ReachForOthers(limit.ns);
    stirred_ = true;
    followers_[limit.process - 1].expired = true;
  }

  // What the emulator does when no thread can run. False: nothing.
  bool Grant() {
    const ProcessLimit earliest =
        std::min(ProcessLimit{queue_.EarliestLimit()}, EarliestLimit());
    if (earliest.ns == kNever)
      return false;
    if (earliest.process != 0) {
      reached_ns_ = std::max(reached_ns_, earliest.ns);
      Expire(earliest);
      return true;
    }
    CheckOrder(earliest);
    process_ns_ = std::max(ProcessNow(), earliest.ns);
    Thread* const first = queue_.Earliest();
    if (first != nullptr && first->deadline_ns <= earliest.ns) {
      queue_.Release(first);
      return true;
    }
    Player* const driver = players_.data();
    queue_.RemoveDriverWait(&alone_);
    Done(driver, true);
    BeginStop(driver);
    return true;
  }

  // --- Threads of the owner
  bool Able(const Player& player) const {
    switch (player.phase) {
      case Phase::kActs:
        return true;
      case Phase::kAwaitsTurn:
        if (fault_ != Fault::kWokenGoesOn && player.thread.guessed && AnyFollowerRuns())
          return false;
        return fault_ == Fault::kNoTurns ||
               queue_.FirstBefore(&player.thread) == nullptr;
      case Phase::kStops:
        return step_ == StopStep::kSettleProcesses
                   ? fault_ == Fault::kNoSettling || !AnyFollowerRuns()
                   : queue_.FirstBefore(&player.thread) == nullptr;
      case Phase::kSettles:
        return !AnyFollowerRuns();
      case Phase::kWaits:
        return player.thread.signalled || player.thread.expired ||
               (player.thread.polls && IsThere(player));
      case Phase::kWaitsAlone:
        return IsThere(player);
      case Phase::kOver:
        return false;
    }
    return false;
  }

  void Done(Player* player, bool by_limit) {
    logs_.owner.emplace_back(Index(*player), player->next++, Clock(*player), by_limit);
    player->phase = Phase::kActs;
    player->begun = false;
  }

  // --- A safe point of the driver, as GuestChannel::Stop
  bool ProcessesAreDue() { return stirred_ || EarliestLimit().ns <= ProcessNow(); }
  void BeginStop(Player* player) {
    const Thread& thread = player->thread;
    const bool awaited = thread.owes_stop || thread.state != Thread::State::kRunning;
    if (!awaited && ProcessNow() < queue_.Gate() && !ProcessesAreDue())
      return;
    queue_.Stop(&player->thread, /*over=*/true);
    player->phase = Phase::kStops;
    helpers_may_run_ = true;
    among_processes_ = ProcessesAreDue();
    step_ = among_processes_ ? StopStep::kSettleProcesses : StopStep::kRunHelpers;
  }
  void StepOfStop(Player* player) {
    if (step_ == StopStep::kSettleProcesses) {
      stirred_ = false;
      WakeHelpers();
    } else {
      const int64_t bound_ns = std::min(ProcessNow(), EarliestLimit().ns);
      Thread* const next = queue_.Earliest();
      if (next != nullptr && next->deadline_ns <= bound_ns && !stirred_) {
        CheckOrder({next->deadline_ns});
        queue_.Release(next);
        return;
      }
      helpers_may_run_ = false;
      if (step_ == StopStep::kGoOn ||
          (!among_processes_ && !(among_processes_ = ProcessesAreDue()))) {
        player->phase = Phase::kActs;
        if (others_reached_turn_ == others_turn_ + 1)
          ++others_turn_;
        return;
      }
    }
    const Thread* const helper = queue_.Earliest();
    OwnerStop stop{.now_ns = ProcessNow(),
                   .processes_may_run = stirred_,
                   .helpers_may_run = helpers_may_run_,
                   .helper_limit_ns = helper == nullptr ? kNever : helper->deadline_ns,
                   .process_limit_ns = EarliestLimit().ns};
    if (fault_ == Fault::kLateHelpers && !stop.processes_may_run &&
        stop.process_limit_ns <= stop.now_ns)
      stop.helpers_may_run = false, stop.helper_limit_ns = kNever;
    step_ = NextStopStep(stop);
    if (step_ == StopStep::kExpireProcess) {
      Expire(EarliestLimit());
      if (fault_ == Fault::kAllLimitsAtOnce)
        while (EarliestLimit().ns <= ProcessNow())
          Expire(EarliestLimit());
      step_ = StopStep::kSettleProcesses;
    }
  }
  // ThreadScheduler::SignalWoken.
  void WakeHelpers() {
    for (Player& player : players_) {
      Thread& thread = player.thread;
      if (player.phase != Phase::kWaits || !thread.polls ||
          thread.state != Thread::State::kParked || !IsThere(player))
        continue;
      queue_.Guess(&thread, RunQueue::Place::kLast);
      helpers_may_run_ = true;
    }
  }

  void Step(Player* player) {
    Thread& thread = player->thread;
    switch (player->phase) {
      case Phase::kStops:
        StepOfStop(player);
        return;
      case Phase::kSettles:
        stirred_ = false;
        WakeHelpers();
        player->phase = Phase::kActs;
        return;
      case Phase::kAwaitsTurn:
        if (thread.signalled)
          TakeInTurn(player);
        else
          player->phase = Phase::kActs;
        return;
      case Phase::kWaits:
        if (thread.polls && IsThere(*player) && !thread.signalled && !thread.expired) {
          queue_.GotOut(&thread);
          helpers_may_run_ = true;  // it has used CPU time
        }
        if (thread.signalled) {
          player->phase = Phase::kAwaitsTurn;
          return;
        }
        queue_.Unpark(&thread, OthersNow(), Thread::State::kRunning);
        Done(player, true);
        return;
      case Phase::kWaitsAlone:
        TakeIt(*player);
        queue_.RemoveDriverWait(&alone_);
        player->took = true;
        BeginStop(player);
        return;
      case Phase::kActs:
        if (std::exchange(player->took, false)) {
          Done(player, false);
        } else if (player->next == world_.threads[Index(*player)].size()) {
          player->phase = Phase::kOver;
          queue_.Remove(&thread);
        } else {
          Begin(player);
        }
        return;
      case Phase::kOver:
        return;
    }
  }

  // Its turn has come after a signal, or what it polls was there.
  void TakeInTurn(Player* player) {
    Thread& thread = player->thread;
    helpers_may_run_ = true;
    if (!IsThere(*player)) {
      queue_.ParkAgain(&thread);
      player->phase = Phase::kWaits;
      return;
    }
    TakeIt(*player);
    queue_.Unpark(&thread, OthersNow(), Thread::State::kRunning);
    Done(player, false);
  }

  void EndWrite(Player* player) {
    if (IsDriver(*player))
      BeginStop(player);
    else if (fault_ != Fault::kWriterGoesOn)
      player->phase = Phase::kSettles;
  }

  void Begin(Player* player) {
    Thread& thread = player->thread;
    const Act& act = Current(*player);
    const bool drives = IsDriver(*player);
    helpers_may_run_ |= !drives;
    switch (act.kind) {
      case Kind::kIssue:
      case Kind::kSleep:
        if (!drives) {
          Park(player, Clock(*player) + act.ns, nullptr, WaitsFor::kLimitOnly);
          return;
        }
        if (!std::exchange(player->begun, true)) {
          BeginStop(player);
          return;
        }
        process_ns_ = ProcessNow() + act.ns;
        Done(player, false);
        BeginStop(player);
        return;
      case Kind::kStart:
        if (followers_[act.object].state == Follower::State::kNone)
          followers_[act.object].state = Follower::State::kActs;
        Stir(*player);
        Done(player, false);
        EndWrite(player);
        return;
      case Kind::kWrite:
        ++pipes_[act.object].down;
        Stir(*player);
        Done(player, false);
        EndWrite(player);
        return;
      case Kind::kPost: {
        Thread* const called = queue_.FirstWaiting(&units_[act.object]);
        if (called != nullptr) {
          queue_.Call(called, Clock(*player));
          thread.owes_stop = thread.owes_stop || drives;
        }
        ++units_[act.object];
        Done(player, false);
        if (drives && called != nullptr)
          BeginStop(player);
        return;
      }
      case Kind::kRead:
      case Kind::kReadLimited:
      case Kind::kReap:
      case Kind::kWait:
      case Kind::kWaitLimited: {
        const bool polls = IsOfPipe(act.kind);
        if (IsThere(*player) &&
            (polls || !queue_.AnyoneSignalled(&units_[act.object]))) {
          TakeIt(*player);
          Done(player, false);
          if (drives)
            BeginStop(player);
          return;
        }
        const bool limited =
            act.kind == Kind::kReadLimited || act.kind == Kind::kWaitLimited;
        const int64_t limit_ns = limited ? Clock(*player) + act.ns : kNever;
        const void* const object = polls ? nullptr : &units_[act.object];
        if (!drives) {
          Park(player, limit_ns, object,
               polls ? WaitsFor::kDescriptors : WaitsFor::kObject);
          return;
        }
        alone_ = {.deadline_ns = limit_ns, .object = object};
        if (limited)
          queue_.AddDriverWait(&alone_);
        // Other threads do not wait for it.
        queue_.Block(&thread);
        player->phase = Phase::kWaitsAlone;
        return;
      }
    }
  }
  void Park(Player* player, int64_t limit_ns, const void* object, WaitsFor what) {
    queue_.Park(&player->thread, limit_ns, object, what);
    player->phase = Phase::kWaits;
  }

  const World& world_;
  const Fault fault_;
  Choose choose_;
  std::vector<Player> players_;
  std::vector<Follower> followers_;
  std::vector<Pipe> pipes_;  // of each follower
  RunQueue queue_;
  DriverWait alone_{};  // the driver's
  std::array<int, 2> units_{};
  int64_t process_ns_ = 0, reached_ns_ = 0;
  int64_t others_turn_ = 0, others_reached_turn_ = 0, others_reached_ns_ = 0;
  bool stirred_ = false;
  // The driver's stop.
  StopStep step_ = StopStep::kGoOn;
  bool among_processes_ = false, helpers_may_run_ = false;
  Logs logs_;
};

Explored<Logs> Explore(const World& world, Fault fault, size_t most_orders) {
  return ExploreOrders<Logs>(
      most_orders, [&](auto choose) { return Run(world, fault, choose).Play(); });
}

int WrongWorlds(Fault fault, int worlds) {
  std::mt19937_64 random(20261129);
  int wrong = 0;
  for (int i = 0; i < worlds; ++i) {
    const std::vector<Logs> logs = Explore(RandomWorld(&random), fault, 200).logs;
    wrong += logs.size() > 1 || logs.front().out_of_order != 0;
  }
  return wrong;
}

TEST(ProcessesWorldsTest, WhateverArrivesFirstProcessesAndThreadsActInOneOrder) {
  std::mt19937_64 random(1);
  int in_part = 0;
  for (int i = 0; i < 300'000; ++i) {
    const Explored<Logs> explored = Explore(RandomWorld(&random), Fault::kNone, 1000);
    ASSERT_EQ(explored.logs.size(), 1u) << "world " << i;
    ASSERT_EQ(explored.logs.front().out_of_order, 0) << "world " << i;
    in_part += explored.all ? 0 : 1;
  }
  EXPECT_LT(in_part, 100);
}

TEST(ProcessesWorldsTest, WhatIsLeftOutIsFound) {
  constexpr int kWorlds = 2000;
  for (const Fault fault : {Fault::kNoSettling, Fault::kNoTurns, Fault::kLateHelpers,
                            Fault::kTiesByArrival, Fault::kAllLimitsAtOnce})
    EXPECT_GT(WrongWorlds(fault, kWorlds), kWorlds / 50) << static_cast<int>(fault);
}

// Whether a helper reads at once, or waits and lets the other one go first, depends on
// how fast the process is.
TEST(ProcessesWorldsTest, AWriterThatGoesOnIsFound) {
  const World asks = {
      .threads = {{{Kind::kIssue, 1}, {Kind::kStart}, {Kind::kSleep, 9}},
                  {{Kind::kSleep, 3}, {Kind::kWrite}, {Kind::kPost}, {Kind::kRead}},
                  {{Kind::kWait}}},
      .processes = {{{Kind::kRead}, {Kind::kWrite}}}};
  EXPECT_EQ(Explore(asks, Fault::kNone, 1000).logs.size(), 1u);
  EXPECT_EQ(Explore(asks, Fault::kWriterGoesOn, 1000).logs.size(), 2u);
}

TEST(ProcessesWorldsTest, AWokenHelperThatGoesOnIsFound) {
  const World reads = {
      .threads = {{{Kind::kIssue, 1}, {Kind::kStart}, {Kind::kSleep, 9}},
                  {{Kind::kRead}, {Kind::kPost}, {Kind::kRead}},
                  {{Kind::kWait}}},
      .processes = {{{Kind::kSleep, 3}, {Kind::kWrite}, {Kind::kWrite}}}};
  EXPECT_EQ(Explore(reads, Fault::kNone, 1000).logs.size(), 1u);
  EXPECT_EQ(Explore(reads, Fault::kWokenGoesOn, 1000).logs.size(), 2u);
}

}  // namespace
}  // namespace vrank::schedule
