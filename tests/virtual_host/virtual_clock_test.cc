#include "virtual_host/process/virtual_clock.h"

#include <pthread.h>

#include <gtest/gtest.h>

namespace vrank::host {
namespace {

TEST(VirtualClockTest, MapsEveryClockOfTheSystem) {
  protocol::Settings settings{};
  settings.realtime_at_start_ns = 77;
  settings.monotonic_at_start_ns = 33;
  for (clockid_t clock : {CLOCK_REALTIME, CLOCK_REALTIME_COARSE})
    EXPECT_EQ(ClockStart(settings, clock), Duration::Nanoseconds(77));
  for (clockid_t clock :
       {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME})
    EXPECT_EQ(ClockStart(settings, clock), Duration::Nanoseconds(33));
  clockid_t of_thread;
  ASSERT_EQ(pthread_getcpuclockid(pthread_self(), &of_thread), 0);
  for (clockid_t clock : {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, of_thread})
    EXPECT_EQ(ClockStart(settings, clock), Duration());
}

TEST(VirtualClockTest, LeavesClocksOfDevicesReal) {
  const clockid_t of_descriptor_5 =
      (~5u << 3) | 3;  // clock_gettime(2), "Dynamic clocks"
  EXPECT_FALSE(ClockStart({}, of_descriptor_5).has_value());
}

}  // namespace
}  // namespace vrank::host
