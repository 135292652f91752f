// The descriptors on which the session waits.

#include "emulator/session/event_poll.h"

#include <unistd.h>

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vrank::emulator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(EventPollTest, ReturnsWhatIsReadable) {
  std::array<int, 2> first{}, second{};
  ASSERT_EQ(pipe(first.data()), 0);
  ASSERT_EQ(pipe(second.data()), 0);
  EventPoll events;
  ASSERT_TRUE(events.Add(first[0]).ok());
  ASSERT_TRUE(events.Add(second[0]).ok());
  EXPECT_FALSE(events.AnyReadable());
  EXPECT_THAT(events.Wait(milliseconds(0)), IsEmpty());
  ASSERT_EQ(write(second[1], "x", 1), 1);
  EXPECT_TRUE(events.AnyReadable());
  EXPECT_THAT(events.Wait(milliseconds(0)), ElementsAre(second[0]));
  for (const int fd : {first[0], first[1], second[0], second[1]})
    close(fd);
}

TEST(EventPollTest, RefusesWhatIsNoDescriptor) {
  EXPECT_FALSE(EventPoll().Add(-1).ok());
}

}  // namespace
}  // namespace vrank::emulator
