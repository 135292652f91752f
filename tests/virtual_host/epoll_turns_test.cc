// When a loop over an epoll set comes round in real time.

#include "virtual_host/wait/epoll_turns.h"

#include <sys/eventfd.h>

#include <thread>

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

bool WasKicked(int event) {
  uint64_t count = 0;
  return read(event, &count, sizeof count) == sizeof count;
}

TEST(EpollTurnsTest, ComeAfterAnotherThreadTookADescriptorOut) {
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  EpollTurns turns;
  turns.Begin(event);
  EXPECT_FALSE(turns.IsDue());
  std::thread([&] { turns.OnRemoval(); }).join();
  EXPECT_TRUE(turns.IsDue());
  EXPECT_TRUE(WasKicked(event));
  int taken = 0;
  for (; turns.IsDue() && taken < 10'000; ++taken)
    turns.Take();
  EXPECT_LT(taken, 10'000);  // not for ever
  close(event);
}

TEST(EpollTurnsTest, ComeOfTheLoopsOwnRemovalsWithoutAKick) {
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  EpollTurns turns;
  turns.Begin(event);
  turns.OnRemoval();
  EXPECT_TRUE(turns.IsDue());
  EXPECT_FALSE(WasKicked(event));
  close(event);
}

TEST(EpollTurnsTest, KickNobodyWhoDoesNotWait) {
  const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  EpollTurns turns;
  turns.Begin(event);
  turns.End();
  std::thread([&] { turns.OnRemoval(); }).join();
  EXPECT_TRUE(turns.IsDue());
  EXPECT_FALSE(WasKicked(event));
  close(event);
}

TEST(EpollTurnsTest, AreKeptForLowDescriptors) {
  EXPECT_EQ(TurnsOf(-1), nullptr);
  EXPECT_EQ(TurnsOf(1 << 20), nullptr);
  EXPECT_NE(TurnsOf(3), nullptr);
  EXPECT_NE(TurnsOf(3), TurnsOf(4));
}

}  // namespace
}  // namespace vrank::host
