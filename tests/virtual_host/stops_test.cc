// Who has stopped for others, for as long as they take.

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/timed_wait.h"

namespace vrank::host {
namespace {

// The driver passes the limits of both: it waits for the first, which has stopped for
// the second, which computes for longer than any look at the first takes.
TEST(StopsTest, OneThatHasStoppedForAnotherDoesNotWait) {
  constexpr auto kComputes = std::chrono::milliseconds(600);
  LinkedChannel linked;
  GuestChannel& channel = linked.channel();
  std::atomic<HostThread*> first = nullptr, second = nullptr;
  bool was_taken_for_waiting = false;
  const auto launch = [&] {
    protocol::Kernel record{};
    record.record.kind = protocol::RecordKind::kKernel;
    channel.Emit(record);
    channel.LetHelpersRun();
  };
  const auto sleep_until = [&](int64_t ms, std::atomic<HostThread*>* who) {
    launch();
    *who = GuestChannel::Turn();
    SleepAsHelper(&channel, *who, TimePoint() + Duration::Milliseconds(ms));
  };
  const auto until_parked = [](const std::atomic<HostThread*>& who) {
    while (who == nullptr || who.load()->state != HostThread::State::kParked)
      std::this_thread::yield();
  };
  std::thread driver([&] {
    ASSERT_TRUE(channel.ClaimRank());
    launch();
    std::thread early([&] {
      sleep_until(1, &first);
      channel.Read(GuestChannel::Reader::kProgram);  // which ends no turn
    });
    until_parked(first);
    std::thread late([&] {
      sleep_until(2, &second);
      const auto end = std::chrono::steady_clock::now() + kComputes;
      while (std::chrono::steady_clock::now() < end)
        was_taken_for_waiting |= first.load()->state == HostThread::State::kBlocked;
    });
    until_parked(second);
    channel.Spend(Duration::Milliseconds(10));
    channel.LetHelpersRun();
    early.join();
    late.join();
  });
  driver.join();
  EXPECT_FALSE(was_taken_for_waiting);
}

}  // namespace
}  // namespace vrank::host
