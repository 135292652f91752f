#include "virtual_host/turns/thread_scheduler.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/timed_wait.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

TEST(ThreadSchedulerTest, AreWaitedForUntilAllTheirQuestionsAreAnswered) {
  // As a watchdog: at each of its limits it asks about many events. Between two
  // questions it takes locks of ours, and whoever looks at it then sees it wait.
  constexpr int kLimits = 1000, kQuestions = 60;
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind == RecordKind::kHostQuery)
          link.Answer(reinterpret_cast<const protocol::HostQuery&>(record).slot,
                      {.complete = true});
      });
  GuestChannel& channel = linked.channel();
  std::atomic<int> asked = 0;
  int left_behind = 0;
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    std::atomic<bool> waits = false;
    std::thread watchdog([&] {
      HostThread* const self = channel.HelperHere();
      for (int limit = 1; limit <= kLimits; ++limit) {
        waits = true;
        SleepAsHelper(&channel, self, TimePoint() + Duration::Milliseconds(limit));
        for (int i = 0; i < kQuestions; ++i) {
          protocol::HostQuery query{};
          query.record.kind = RecordKind::kHostQuery;
          channel.Ask(query);
          ++asked;
        }
      }
    });
    while (!waits)
      std::this_thread::yield();
    for (int limit = 1; limit <= kLimits; ++limit) {
      channel.Spend(Duration::Milliseconds(1));
      channel.LetHelpersRun();
      left_behind += asked != limit * kQuestions;
    }
    watchdog.join();
  });
  driver.join();
  EXPECT_EQ(asked, kLimits * kQuestions);
  EXPECT_EQ(left_behind, 0);
}

TEST(ThreadSchedulerTest, ASleeperThatLookedAwakeStillHasItsLimit) {
  // A join: the driver waits without a limit, so the emulator has to know the
  // sleeper's.
  constexpr Duration kLimit = Duration::Milliseconds(5);
  LinkedChannel linked;
  GuestChannel& channel = linked.channel();
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    std::atomic<HostThread*> sleeper = nullptr;
    std::thread thread([&] {
      sleeper = channel.HelperHere();
      SleepAsHelper(&channel, sleeper, TimePoint() + kLimit);
    });
    while (sleeper == nullptr || sleeper.load()->state != HostThread::State::kParked)
      std::this_thread::yield();
    // Kicked, it looks whether its limit is over; whoever looks at it then takes it for
    // woken.
    while (!channel.scheduler().SignalWoken(channel.Peek()))
      channel.scheduler().KickWaiter(sleeper, nullptr);
    channel.LetHelpersRun();
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::optional<emulator::GuestLink::Limit> limit;
    while (!limit.has_value() && std::chrono::steady_clock::now() < patience) {
      std::this_thread::yield();
      limit = linked.link().EarliestLimit();
    }
    EXPECT_TRUE(limit.has_value());
    if (limit.has_value()) {
      EXPECT_EQ(limit->ns, kLimit.nanoseconds());
      linked.link().GrantLimit(*limit);
    } else {
      channel.Reach(TimePoint() + kLimit);
      channel.LetHelpersRun();
    }
    thread.join();
    EXPECT_EQ(channel.Peek(), TimePoint() + kLimit);
  });
  driver.join();
}

TEST(ThreadSchedulerTest, OneThatGetsWhatItWantsAtOnceNeverSeemsToWait) {
  LinkedChannel linked;
  GuestChannel& channel = linked.channel();
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    std::thread([&] {
      HostThread* const self = channel.HelperHere();
      const int wanted = 0;
      EXPECT_TRUE(WaitByWord(&channel, self, &wanted, TimePoint::Max(), [&] {
        EXPECT_EQ(self->state, HostThread::State::kRunning);
        return true;
      }));
    }).join();
  });
  driver.join();
}

// One that issues work asks, and the emulator has seen all but does not answer yet.
TEST(ThreadSchedulerTest, OneBehindAQuestionGoesOnWhenTheEmulatorSaysSo) {
  std::atomic<uint32_t> open = protocol::kNoSlot;
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [&](emulator::GuestLink&, const protocol::Record& record) {
        if (record.kind == RecordKind::kHostWaitLane)
          open = reinterpret_cast<const protocol::HostWait&>(record).slot;
      });
  GuestChannel& channel = linked.channel();
  std::atomic<bool> went_on = false;
  HostThread* asker = nullptr;
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Milliseconds(3));
    asker = GuestChannel::Turn();
    channel.scheduler().Park(
        asker, kNever, nullptr, [](HostThread*) {}, 0,
        ThreadScheduler::WaitsFor::kDescriptors);
    channel.scheduler().Unpark(asker, TimePoint());
    std::thread other([&] {
      protocol::Kernel launch{};
      launch.record.kind = RecordKind::kKernel;
      channel.Emit(launch);
      while (open == protocol::kNoSlot)
        std::this_thread::yield();
      channel.LetHelpersRun();
      went_on = true;
    });
    protocol::HostWait wait{};
    wait.record.kind = RecordKind::kHostWaitLane;
    channel.Ask(wait);
    other.join();
  });
  const emulator::GuestLink& link = linked.link();
  while (open == protocol::kNoSlot || !link.EarliestLimit().has_value())
    std::this_thread::yield();
  EXPECT_EQ(link.EarliestLimit()->ns, Duration::Milliseconds(3).nanoseconds());
  EXPECT_FALSE(link.Blocked());
  EXPECT_FALSE(went_on);
  linked.link().GrantLimit(*link.EarliestLimit());
  EXPECT_FALSE(link.EarliestLimit().has_value());
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!went_on && std::chrono::steady_clock::now() < patience)
    std::this_thread::yield();
  EXPECT_TRUE(went_on);
  EXPECT_FALSE(link.HasGrant());
  // It waits for the answer alone, whatever it has waited for before.
  channel.scheduler().SignalWritten(TimePoint());
  EXPECT_EQ(asker->state, HostThread::State::kParked);
  linked.link().Answer(open, {});
  driver.join();
}

// What another real rank sends comes when it comes in real time.
TEST(ThreadSchedulerTest, OneThatWaitsForTheNetworkKeepsItsTurn) {
  using WaitsFor = ThreadScheduler::WaitsFor;
  for (const WaitsFor waits_for : {WaitsFor::kDescriptors, WaitsFor::kNetwork}) {
    LinkedChannel linked;
    ThreadScheduler& scheduler = linked.channel().scheduler();
    HostThread* const waiter = scheduler.BeginIssuing(nullptr);
    scheduler.Park(
        waiter, kNever, nullptr, [](HostThread*) {}, 0, waits_for);
    std::atomic<bool> went_on = false;
    std::thread other([&] {
      HostThread* const self = scheduler.BeginIssuing(nullptr);
      scheduler.BeginStop(self, ThreadScheduler::TurnEnd::kOver);
      scheduler.RunUntil(TimePoint(), self, /*others_first=*/false);
      went_on = true;
    });
    if (waits_for == WaitsFor::kNetwork) {
      while (!linked.link().EarliestLimit().has_value())
        std::this_thread::yield();
      EXPECT_FALSE(went_on);
      linked.link().GrantLimit(*linked.link().EarliestLimit());
    }
    other.join();
    EXPECT_TRUE(went_on);
    scheduler.Unpark(waiter, TimePoint());
    EXPECT_FALSE(waiter->kept_turn);
    EXPECT_FALSE(linked.link().HasGrant());
  }
}

// ... and goes on waiting only where nobody has written since it looked.
TEST(ThreadSchedulerTest, OneThatLooksForWhatIsWrittenLooksAgain) {
  LinkedChannel linked;
  ThreadScheduler& scheduler = linked.channel().scheduler();
  HostThread* const reader = scheduler.Announce(TimePoint());
  scheduler.Begin(reader);  // as this thread, which runs
  scheduler.Park(
      reader, kNever, nullptr, [](HostThread*) {}, 0,
      ThreadScheduler::WaitsFor::kDescriptors);
  scheduler.SignalWritten(TimePoint());
  EXPECT_EQ(scheduler.Look(reader), ThreadScheduler::Outcome::kSignalled);
  scheduler.BeginLook(reader);
  scheduler.SignalWritten(TimePoint());
  scheduler.ParkAgain(reader);
  EXPECT_EQ(reader->state, HostThread::State::kRunning);
  EXPECT_EQ(scheduler.Look(reader), ThreadScheduler::Outcome::kSignalled);
  scheduler.BeginLook(reader);
  scheduler.ParkAgain(reader);
  EXPECT_EQ(reader->state, HostThread::State::kParked);
  EXPECT_EQ(scheduler.Look(reader), ThreadScheduler::Outcome::kWaits);
  scheduler.Unpark(reader, TimePoint());
}

// Between its signal and its wake-up a thread sleeps, and runs all the same.
TEST(ThreadSchedulerTest, OneThatIsBeingWokenDoesNotWait) {
  LinkedChannel linked;
  ThreadScheduler& scheduler = linked.channel().scheduler();
  const int object = 0;
  std::atomic<HostThread*> sleeper = nullptr;
  std::atomic<uint32_t> woken{0};
  std::thread thread([&] {
    HostThread* const self = scheduler.Announce(TimePoint());
    scheduler.Begin(self);
    scheduler.Park(self, kNever, &object, [](HostThread*) {});
    sleeper = self;
    woken.wait(0);
    scheduler.End(self);
  });
  while (sleeper == nullptr)
    std::this_thread::yield();
  std::atomic<bool> settled = false;
  std::thread driver;
  {
    ThreadScheduler::WakeScope waking(&scheduler);
    EXPECT_TRUE(scheduler.SignalFirst(&object, TimePoint()));
    driver = std::thread([&] {
      scheduler.RunUntil(TimePoint(), nullptr, /*others_first=*/false);
      settled = true;
    });
    // Long enough for a hundred looks at it.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(settled);
    EXPECT_EQ(sleeper.load()->state, HostThread::State::kRunning);
  }
  // Nobody wakes it after all, so it waits.
  driver.join();
  EXPECT_EQ(sleeper.load()->state, HostThread::State::kBlocked);
  woken = 1;
  woken.notify_all();
  thread.join();
}

// Whoever waits in slices may be seen awake while it only looks at its limit.
class SeenAwakeTest : public testing::Test {
 protected:
  // Two helpers that wait for one object, the first of them seen awake.
  void SetUp() override {
    for (HostThread*& helper : waiters_) {
      helper = scheduler_.Announce(TimePoint());
      scheduler_.Begin(helper);  // as this thread, which runs
      scheduler_.Park(helper, kLimit.nanoseconds(), &object_, [](HostThread*) {});
    }
    ASSERT_TRUE(scheduler_.SignalWoken(TimePoint() + kLater));
    scheduler_.ParkAgain(waiters_[1]);
  }
  static constexpr Duration kLimit = Duration::Milliseconds(5);
  static constexpr Duration kLater = Duration::Milliseconds(9);
  const int object_ = 0;
  LinkedChannel linked_;
  ThreadScheduler& scheduler_ = linked_.channel().scheduler();
  HostThread* waiters_[2];
};

TEST_F(SeenAwakeTest, IsStillTheFirstToBeCalled) {
  EXPECT_EQ(scheduler_.SignalFirst(&object_, TimePoint()), waiters_[0]);
  EXPECT_EQ(scheduler_.SignalFirst(&object_, TimePoint()), waiters_[1]);
  EXPECT_EQ(scheduler_.SignalFirst(&object_, TimePoint()), nullptr);
}

TEST_F(SeenAwakeTest, TakesNothingFromOneThatWasCalled) {
  const auto take = [] { return true; };
  EXPECT_EQ(scheduler_.Take(*waiters_[1], /*called=*/false, take),
            ThreadScheduler::Took::kYes);
  scheduler_.SignalOne(waiters_[1], &object_, TimePoint());
  EXPECT_EQ(scheduler_.Take(*waiters_[0], /*called=*/true, take),
            ThreadScheduler::Took::kNo);
}

TEST_F(SeenAwakeTest, KeepsTheClockOfItsLimit) {
  scheduler_.ParkAgain(waiters_[0]);
  scheduler_.Expire(TimePoint() + kLimit);
  scheduler_.Unpark(waiters_[0], TimePoint() + kLater);
  EXPECT_EQ(waiters_[0]->clock_ns, kLimit.nanoseconds());
}

// A driver calls helpers that wait for it.
class CalledHelperTest : public testing::Test {
 protected:
  // A helper that waits until it is called, and then runs `then`.
  class Called {
   public:
    template <typename Function>
    Called(GuestChannel* channel, Function then)
        : channel_(*channel), thread_([this, then] {
            waiter_ = channel_.HelperHere();
            EXPECT_TRUE(WaitByWord(&channel_, waiter_, &given_, TimePoint::Max(),
                                   [this] { return given_.load(); }));
            then();
          }) {
      while (waiter_ == nullptr || waiter_.load()->state != HostThread::State::kParked)
        std::this_thread::yield();
    }
    ~Called() { thread_.join(); }
    void Call() {
      EXPECT_TRUE(CallByWord(&channel_, &given_, [this] { given_ = true; }));
    }

   private:
    GuestChannel& channel_;
    std::atomic<bool> given_{false};
    std::atomic<HostThread*> waiter_{nullptr};
    std::thread thread_;
  };
  template <typename Function>
  void Drive(Function driver) {
    std::thread([&] {
      ASSERT_TRUE(channel_.ClaimRank());
      // Its first turn is over.
      channel_.scheduler().BeginStop(GuestChannel::Turn(),
                                     ThreadScheduler::TurnEnd::kOver);
      driver();
    }).join();
  }
  // Not by sleeping, which everybody sees.
  static void ComputeForAWhile() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
  }

  LinkedChannel linked_;
  GuestChannel& channel_ = linked_.channel();
};

TEST_F(CalledHelperTest, GoesOnWhenItsCallerHasStopped) {
  std::atomic<bool> stops = false;
  bool had_stopped = false;
  Drive([&] {
    Called helper(&channel_, [&] { had_stopped = stops; });
    helper.Call();
    ComputeForAWhile();
    stops = true;
    channel_.LetHelpersRun();
  });
  EXPECT_TRUE(had_stopped);
}

TEST_F(CalledHelperTest, EndsItsTurnBeforeTheNextGoesOnAlsoWhereItBeginsToIssue) {
  std::atomic<bool> next_went_on = false;
  bool ran_beside = false;
  Drive([&] {
    Called first(&channel_, [&] {
      protocol::Kernel launch{};
      launch.record.kind = RecordKind::kKernel;
      channel_.Emit(launch);
      ComputeForAWhile();
      ran_beside = next_went_on;
      channel_.LetHelpersRun();
    });
    Called next(&channel_, [&] { next_went_on = true; });
    first.Call();
    next.Call();
    channel_.LetHelpersRun();
  });
  EXPECT_TRUE(next_went_on);
  EXPECT_FALSE(ran_beside);
}

}  // namespace
}  // namespace vrank::host
