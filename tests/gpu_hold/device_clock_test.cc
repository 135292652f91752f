#include "gpu_hold/device_clock.h"

#include <random>

#include <gtest/gtest.h>

namespace vrank::hold {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(DeviceClockTest, DelaysAreTakenOutButForTheLeast) {
  DeviceClock clock;
  constexpr int64_t kApart = 123'456'789;
  std::mt19937 random(3);
  std::uniform_int_distribution<int64_t> delay(1'000, 60'000);
  // The least delay has been seen; from then on it is what is left of any.
  clock.HostTime(0, kApart + 1'000);
  for (int64_t at = kMs; at < 90 * kMs; at += kMs)
    EXPECT_EQ(clock.HostTime(static_cast<uint64_t>(at), at + kApart + delay(random)),
              at + kApart + 1'000);
}

TEST(DeviceClockTest, NeverLaterThanSeen) {
  DeviceClock clock;
  EXPECT_EQ(clock.HostTime(500, 700), 700);
  EXPECT_EQ(clock.HostTime(600, 750), 750);
}

// 50 parts in a million are 100 us in two seconds.
TEST(DeviceClockTest, FollowsADrift) {
  DeviceClock clock;
  for (int64_t at = 0; at < 5'000 * kMs; at += kMs) {
    const int64_t host = at + at / 20'000;
    EXPECT_LE(host - clock.HostTime(static_cast<uint64_t>(at), host + 500), 12'000);
    EXPECT_LE(clock.HostTime(static_cast<uint64_t>(at), host + 500) - host, 12'000);
  }
}

TEST(DeviceClockTest, ForgetsWhatIsOld) {
  DeviceClock clock;
  clock.HostTime(0, 1'000);
  EXPECT_EQ(clock.HostTime(1'000 * kMs, 1'000 * kMs + 9'000), 1'000 * kMs + 9'000);
}

}  // namespace
}  // namespace vrank::hold
