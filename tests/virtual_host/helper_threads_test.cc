#include "virtual_host/helper_threads.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/timed_wait.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

TEST(HelperThreadsTest, AreWaitedForUntilAllTheirQuestionsAreAnswered) {
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
      Helper* const self = channel.HelperHere();
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

TEST(HelperThreadsTest, ASleeperThatLookedAwakeStillHasItsLimit) {
  // A join: the driver waits without a limit, so the emulator has to know the
  // sleeper's.
  constexpr Duration kLimit = Duration::Milliseconds(5);
  LinkedChannel linked;
  GuestChannel& channel = linked.channel();
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    std::atomic<Helper*> sleeper = nullptr;
    std::thread thread([&] {
      sleeper = channel.HelperHere();
      SleepAsHelper(&channel, sleeper, TimePoint() + kLimit);
    });
    while (sleeper == nullptr || sleeper.load()->state != Helper::State::kParked)
      std::this_thread::yield();
    // Kicked, it looks whether its limit is over; whoever looks at it then takes it for
    // woken.
    while (!channel.helpers().SignalWoken(channel.Peek()))
      channel.helpers().KickWaiter(sleeper, nullptr);
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

TEST(HelperThreadsTest, OneThatGetsWhatItWantsAtOnceNeverSeemsToWait) {
  LinkedChannel linked;
  GuestChannel& channel = linked.channel();
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    std::thread([&] {
      Helper* const self = channel.HelperHere();
      const int wanted = 0;
      EXPECT_TRUE(WaitByWord(&channel, self, &wanted, TimePoint::Max(), [&] {
        EXPECT_EQ(self->state, Helper::State::kRunning);
        return true;
      }));
    }).join();
  });
  driver.join();
}

// A driver calls a helper that waits for it.
class CalledHelperTest : public testing::Test {
 protected:
  // `helper` runs on the helper's thread once it has been called, `driver` on the
  // driver's when it has called.
  template <typename HelperPart, typename DriverPart>
  void Run(HelperPart helper, DriverPart driver) {
    std::thread issuer([&] {
      ASSERT_TRUE(channel_.ClaimRank());
      std::atomic<Helper*> waiter = nullptr;
      std::atomic<bool> given = false;
      std::thread thread([&] {
        waiter = channel_.HelperHere();
        EXPECT_TRUE(WaitByWord(&channel_, waiter, &given, TimePoint::Max(),
                               [&] { return given.load(); }));
        helper();
      });
      while (waiter == nullptr || waiter.load()->state != Helper::State::kParked)
        std::this_thread::yield();
      EXPECT_TRUE(CallByWord(&channel_, &given, [&] { given = true; }));
      driver();
      channel_.LetHelpersRun();
      thread.join();
    });
    issuer.join();
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
  Run([&] { had_stopped = stops; },
      [&] {
        ComputeForAWhile();
        stops = true;
      });
  EXPECT_TRUE(had_stopped);
}

TEST_F(CalledHelperTest, EndsItsTurnBeforeItsCallerGoesOnAlsoWhereItBeginsToIssue) {
  std::atomic<bool> went_on = false;
  bool ran_beside = false;
  Run(
      [&] {
        protocol::Kernel launch{};
        launch.record.kind = RecordKind::kKernel;
        channel_.Emit(launch);
        ComputeForAWhile();
        ran_beside = went_on;
        channel_.LetHelpersRun();
      },
      [&] {
        channel_.LetHelpersRun();
        went_on = true;
      });
  EXPECT_FALSE(ran_beside);
}

}  // namespace
}  // namespace vrank::host
