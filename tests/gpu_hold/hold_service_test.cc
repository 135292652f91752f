// Holds against a device of host threads: order, wrap-around, time-outs, deaths.

#include "gpu_hold/hold_service.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gpu_hold/fake_device.h"

namespace vrank::hold {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::HasSubstr;

// Long enough for a loaded machine; nothing waits that long unless it fails.
constexpr Duration kPatience = Duration::Seconds(60);
// Shows that something does not happen; too short makes a test weak, not wrong.
constexpr milliseconds kAMoment{30};

class HoldServiceTest : public testing::Test {
 protected:
  // What has begun, in order.
  struct Arrival {
    HoldRing* ring;
    uint32_t epoch;
    uint32_t work;
    uint64_t device_ns;
  };
  HoldService::Options Options() {
    HoldService::Options options;
    options.patience = kPatience;
    options.on_arrival = [this](HoldRing* ring, const HoldArrival& arrival) {
      const std::lock_guard lock(mutex);
      arrivals.push_back({ring, arrival.epoch, arrival.work, arrival.device_ns});
    };
    return options;
  }
  size_t Arrived() {
    const std::lock_guard lock(mutex);
    return arrivals.size();
  }
  void AwaitArrivals(size_t count) {
    while (Arrived() < count)
      std::this_thread::yield();
  }
  bool Begin(HoldService& service, HoldRing* ring, HoldMode mode = {},
             Duration duration = {}, uint32_t ctas = 3) {
    HoldLaunch launch;
    launch.parameters.mode = mode;
    launch.parameters.duration_ns = static_cast<uint64_t>(duration.nanoseconds());
    launch.shape.ctas = ctas;
    return service.Begin(ring, launch, &error);
  }

  FakeDevice device;
  std::mutex mutex;
  std::vector<Arrival> arrivals;
  std::string error;
};

TEST_F(HoldServiceTest, HoldsUntilItIsReleased) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  EXPECT_TRUE(Begin(service, ring));
  AwaitArrivals(1);
  EXPECT_EQ(arrivals[0].epoch, 1u);
  EXPECT_FALSE(device.SynchronizeFor(kAMoment));
  service.Release(ring, 1);
  device.Synchronize();
  EXPECT_EQ(device.outcomes.size(), 3u);
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kReleased));
  EXPECT_EQ(service.Health(), "");
}

TEST_F(HoldServiceTest, AReleaseMayComeBeforeTheHold) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  device.stalls = true;
  Begin(service, ring);
  Begin(service, ring);
  service.Release(ring, 2);
  // A release of what is released takes nothing back.
  service.Release(ring, 1);
  device.stalls = false;
  device.Synchronize();
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kReleased));
}

TEST_F(HoldServiceTest, ATimedHoldEndsByItself) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  constexpr Duration kLength = Duration::Milliseconds(5);
  const uint64_t before = HostDevice::Now();
  Begin(service, ring, HoldMode::kTimed, kLength);
  device.Synchronize();
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kTimeOver));
  EXPECT_GE(HostDevice::Now() - before, static_cast<uint64_t>(kLength.nanoseconds()));
}

// CUDA_DEVICE_MAX_CONNECTIONS=1: the second stream's hold stands behind the first
// one's, and the first is released only after the second one was queued.
TEST_F(HoldServiceTest, OneHardwareQueueDoesNotDeadlock) {
  HoldService service(&device, Options());
  HoldRing* const first = service.Open();
  HoldRing* const second = service.Open();
  Begin(service, first);
  AwaitArrivals(1);
  Begin(service, second);
  // The other rank has its second collective first.
  service.Release(second, 1);
  service.Release(first, 1);
  device.Synchronize();
  AwaitArrivals(2);
  EXPECT_EQ(arrivals[1].ring, second);
  EXPECT_GE(arrivals[1].device_ns, arrivals[0].device_ns);
}

TEST_F(HoldServiceTest, EntriesAreUsedAgainAndAgain) {
  constexpr uint32_t kHolds = kHoldEntries + 200;
  HoldService::Options options = Options();
  HoldService* served = nullptr;
  options.on_arrival = [&](HoldRing* ring, const HoldArrival& arrival) {
    const std::lock_guard lock(mutex);
    arrivals.push_back({ring, arrival.epoch, arrival.work, arrival.device_ns});
    served->Release(ring, arrival.epoch);
  };
  HoldService service(&device, std::move(options));
  served = &service;
  HoldRing* const ring = service.Open();
  for (uint32_t i = 1; i <= kHolds; ++i) {
    const bool timed = i % 3 == 0;
    ASSERT_TRUE(Begin(service, ring,
                      timed ? HoldMode::kTimed : HoldMode::kUntilReleased, {}, 1))
        << error;
  }
  device.Synchronize();
  AwaitArrivals(kHolds);
  ASSERT_EQ(device.outcomes.size(), kHolds);
  for (uint32_t i = 1; i <= kHolds; ++i) {
    EXPECT_EQ(arrivals[i - 1].epoch, i);
    if (i % 3 != 0) {
      ASSERT_EQ(device.outcomes[i - 1], HoldOutcome::kReleased) << i;
    }
  }
}

// NCCL takes as many CTAs as an operation is worth.
TEST_F(HoldServiceTest, GridsMayDiffer) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  size_t ctas = 0;
  uint32_t epoch = 0;
  for (const uint32_t grid : {1, 4, 2, 4, 3, 1, 4}) {
    ASSERT_TRUE(Begin(service, ring, {}, {}, grid));
    ++epoch;
    ctas += grid;
    AwaitArrivals(epoch);
    EXPECT_FALSE(device.SynchronizeFor(milliseconds(2)));
    service.Release(ring, epoch);
    device.Synchronize();
  }
  EXPECT_EQ(device.outcomes.size(), ctas);
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kReleased));
}

TEST_F(HoldServiceTest, EpochsWrapAround) {
  EXPECT_TRUE(HasReached(2, 0xfffffffe));
  EXPECT_FALSE(HasReached(0xfffffffe, 2));
}

// Holds that end by themselves are as many ahead of a host that looks late as there are
// entries; the next one waits for it, and tells no less.
TEST_F(HoldServiceTest, TheDeviceWaitsForAHostThatLooksLate) {
  HoldService::Options options = Options();
  std::atomic<bool> looks = false;
  options.on_arrival = [&](HoldRing* ring, const HoldArrival& arrival) {
    while (!looks)
      std::this_thread::yield();
    const std::lock_guard lock(mutex);
    arrivals.push_back({ring, arrival.epoch, arrival.work, arrival.device_ns});
  };
  constexpr uint32_t kHolds = 2 * kHoldEntries;
  HoldService service(&device, std::move(options));
  HoldRing* const ring = service.Open();
  for (uint32_t i = 0; i < kHolds; ++i)
    ASSERT_TRUE(Begin(service, ring, HoldMode::kTimed, {}, 2));
  EXPECT_FALSE(device.SynchronizeFor(kAMoment));
  looks = true;
  device.Synchronize();
  AwaitArrivals(kHolds);
  for (uint32_t i = 0; i < kHolds; ++i)
    EXPECT_EQ(arrivals[i].epoch, i + 1);
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kTimeOver));
}

// A launch that waits for room in the device's queue holds up neither releases nor the
// end of everything.
TEST_F(HoldServiceTest, AFullQueueIsServed) {
  HoldService::Options options = Options();
  std::atomic<bool> lives = true;
  options.emulator_lives = [&] { return lives.load(); };
  HoldService service(&device, std::move(options));
  HoldRing* const ring = service.Open();
  device.queue_limit = 1;
  std::atomic<int> begun = 0;
  std::thread caller([&] {
    while (Begin(service, ring, {}, {}, 1))
      ++begun;
  });
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    AwaitArrivals(epoch);
    service.Release(ring, epoch);
  }
  AwaitArrivals(4);
  EXPECT_LE(begun, 5);  // one runs, one is queued
  lives = false;
  caller.join();
  EXPECT_THAT(error, HasSubstr("the emulator is gone"));
  device.Synchronize();
}

TEST_F(HoldServiceTest, TheEndOfTheEmulatorEndsAllHolds) {
  HoldService::Options options = Options();
  std::atomic<bool> lives = true;
  options.emulator_lives = [&] { return lives.load(); };
  HoldService service(&device, std::move(options));
  HoldRing* const one = service.Open();
  HoldRing* const other = service.Open();
  Begin(service, one);
  Begin(service, other);
  AwaitArrivals(1);
  lives = false;
  device.Synchronize();
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kAborted));
  EXPECT_THAT(service.Health(), HasSubstr("the emulator is gone"));
  EXPECT_FALSE(Begin(service, one));
  EXPECT_THAT(error, HasSubstr("the emulator is gone"));
  // A communicator made now holds nothing up either.
  EXPECT_FALSE(Begin(service, service.Open()));
}

// The thread that serves is stuck: the device does not wait for it for ever.
TEST_F(HoldServiceTest, TheDeviceLeavesAHostThatDoesNotServe) {
  HoldService::Options options = Options();
  options.patience = Duration::Milliseconds(50);
  std::atomic<bool> left = false;
  options.on_arrival = [&](HoldRing*, const HoldArrival&) {
    while (!left)
      std::this_thread::yield();
  };
  HoldService service(&device, std::move(options));
  HoldRing* const ring = service.Open();
  Begin(service, ring);
  device.Synchronize();
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kHostLost));
  left = true;
  while (service.Health().empty())
    std::this_thread::yield();
  EXPECT_THAT(service.Health(), HasSubstr("did not serve it for 50 ms"));
}

TEST_F(HoldServiceTest, ClosingEndsTheHoldsOfOneCommunicatorOnly) {
  HoldService service(&device, Options());
  HoldRing* const closed = service.Open();
  HoldRing* const kept = service.Open();
  Begin(service, closed);
  AwaitArrivals(1);
  Begin(service, kept);
  service.Close(closed);
  AwaitArrivals(2);
  EXPECT_FALSE(device.SynchronizeFor(kAMoment));
  EXPECT_FALSE(Begin(service, closed));
  service.Release(kept, 1);
  device.Synchronize();
  service.Open();
  EXPECT_EQ(device.rings(), 2u);
}

// Its address is nobody else's as long as somebody may still name it.
TEST_F(HoldServiceTest, WhatIsAbortedIsNotFreedBeforeItIsClosed) {
  HoldService service(&device, Options());
  HoldRing* const aborted = service.Open();
  service.Abort(aborted);
  EXPECT_FALSE(Begin(service, aborted));
  service.Open();
  EXPECT_EQ(device.rings(), 2u);
  service.Close(aborted);
  service.Open();
  EXPECT_EQ(device.rings(), 2u);
}

TEST_F(HoldServiceTest, ALaunchThatFailsIsNotCounted) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  device.refuses = true;
  EXPECT_FALSE(Begin(service, ring));
  EXPECT_EQ(error, "CUDA_ERROR_OUT_OF_MEMORY");
  device.refuses = false;
  EXPECT_TRUE(Begin(service, ring));
  service.Release(ring, 1);
  device.Synchronize();
  EXPECT_THAT(device.outcomes, Each(HoldOutcome::kReleased));
}

// A graph's launches repeat captured kernels among those of calls; the host, which does
// not see them, learns from each hold what it stands for.
TEST_F(HoldServiceTest, LaunchesOfAGraphSayWhatTheyAre) {
  HoldService service(&device, Options());
  HoldRing* const ring = service.Open();
  void* const stream = &service;
  device.BeginCapture(stream);
  HoldLaunch launch;
  launch.stream = stream;
  launch.shape.ctas = 2;
  launch.parameters.work = 7;
  ASSERT_TRUE(service.Begin(ring, launch, &error));
  launch.parameters = {};
  launch.parameters.work = 8;
  launch.parameters.mode = HoldMode::kTimed;
  ASSERT_TRUE(service.Begin(ring, launch, &error));
  const FakeDevice::Graph graph = device.EndCapture(stream);
  device.Synchronize();
  EXPECT_EQ(Arrived(), 0u);
  device.LaunchGraph(graph);
  ASSERT_TRUE(Begin(service, ring, {}, {}, 2));
  device.LaunchGraph(graph);
  for (const uint32_t epoch : {1, 3, 4}) {
    AwaitArrivals(epoch);
    service.Release(ring, epoch);
  }
  device.Synchronize();
  AwaitArrivals(5);
  std::vector<uint32_t> works;
  for (const Arrival& arrival : arrivals)
    works.push_back(arrival.work);
  EXPECT_THAT(works, testing::ElementsAre(7, 8, 0, 7, 8));
}

// A graph may be launched when its communicator has gone, and holds nothing up.
TEST_F(HoldServiceTest, AGraphOutlivesItsRing) {
  {
    HoldService service(&device, Options());
    HoldRing* const captured = service.Open();
    void* const stream = &service;
    device.BeginCapture(stream);
    HoldLaunch launch;
    launch.stream = stream;
    launch.parameters.work = 1;
    ASSERT_TRUE(service.Begin(captured, launch, &error));
    const FakeDevice::Graph graph = device.EndCapture(stream);
    service.Close(captured);
    service.Open();
    EXPECT_EQ(device.rings(), 2u);
    device.LaunchGraph(graph);
    device.Synchronize();
    EXPECT_THAT(device.outcomes, Each(HoldOutcome::kAborted));
  }
  EXPECT_EQ(device.rings(), 1u);
}

TEST_F(HoldServiceTest, LeavesNothingBehind) {
  {
    HoldService service(&device, Options());
    Begin(service, service.Open());
    Begin(service, service.Open());
  }
  EXPECT_EQ(device.rings(), 0u);
}

}  // namespace
}  // namespace vrank::hold
