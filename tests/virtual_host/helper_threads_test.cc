#include "virtual_host/helper_threads.h"

#include <atomic>
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

}  // namespace
}  // namespace vrank::host
