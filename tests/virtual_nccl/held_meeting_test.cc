// Where real ranks on held GPUs meet, and what they leave behind: one clock for all,
// meetings beside held streams, aborts, streams that are gone.

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_nccl/held_process.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

using emulator::FakeJob;
using emulator::Guest;
using hold::FakeStreams;
using std::chrono::milliseconds;
using testing::Contains;
using testing::Pair;

constexpr milliseconds kAMoment{30};

int RankOf(const Guest& guest) {
  return static_cast<int>(guest.rank());
}

TEST(HeldMeetingTest, RanksThatBeginApartHaveOneClock) {
  const auto program = [&](Guest& guest) {
    if (guest.rank() == 1)
      std::this_thread::sleep_for(kAMoment);
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, RankOf(guest), 7);
    const int64_t before = SteadyNs();
    process.gpu.CountHostTime();
    const int64_t now = guest.channel().Now().nanoseconds() + TimeOriginNs();
    EXPECT_LE(before, now);
    EXPECT_LE(now, SteadyNs());
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
}

// Not before its time has passed since the last member's call.
TEST(HeldMeetingTest, AHoldLastsAsLongAsTheModelSays) {
  const Duration takes = Duration::Milliseconds(40);
  std::array<std::atomic<int64_t>, 2> called_ns{};
  std::array<std::atomic<int64_t>, 2> ended_ns{};
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, RankOf(guest), 7);
    called_ns[guest.rank()] = SteadyNs();
    EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    process.device.Synchronize();
    ended_ns[guest.rank()] = SteadyNs();
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}}, {}, takes);
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  for (const std::atomic<int64_t>& ended : ended_ns)
    EXPECT_GE(ended - std::max(called_ns[0].load(), called_ns[1].load()),
              takes.nanoseconds());
}

// One member meets for a window while the other one's stream is held by an operation
// that the first one calls only afterwards, on another communicator.
TEST(HeldMeetingTest, WindowsAreMetForBesideWhatIsHeld) {
  std::atomic<bool> held{false};
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const windows = process.Init(2, RankOf(guest), 7);
    ncclComm_t const other = process.Init(2, RankOf(guest), 8);
    if (guest.rank() == 0) {
      EXPECT_EQ(process.AllReduce(other), ncclSuccess);
      EXPECT_FALSE(process.device.SynchronizeFor(kAMoment));
      held = true;
    } else {
      while (!held)
        std::this_thread::yield();
    }
    process.group.Start();
    EXPECT_EQ(process.group.AddWindow(Communicator::From(windows)), ncclSuccess);
    EXPECT_EQ(process.group.End(process.nccl), ncclSuccess);
    if (guest.rank() == 1) {
      EXPECT_EQ(process.AllReduce(other), ncclSuccess);
    }
    process.device.Synchronize();
    EXPECT_EQ(Destroy(process.nccl, windows), ncclSuccess);
    EXPECT_EQ(Destroy(process.nccl, other), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
}

TEST(HeldMeetingTest, AnAbortEndsWhatIsHeldAndItsStreamGoesOn) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const first = process.Init(2, RankOf(guest), 7);
    if (guest.rank() == 0) {
      EXPECT_EQ(process.AllReduce(first), ncclSuccess);
      EXPECT_FALSE(process.device.SynchronizeFor(kAMoment));
    }
    EXPECT_EQ(Abort(process.nccl, first), ncclSuccess);
    process.device.Synchronize();
    EXPECT_THAT(process.device.outcomes, testing::Each(hold::HoldOutcome::kAborted));
    for (unsigned char id = 8; id < 10; ++id) {
      process.device.outcomes.clear();
      ncclComm_t const next = process.Init(2, RankOf(guest), id);
      EXPECT_EQ(process.AllReduce(next), ncclSuccess);
      process.device.Synchronize();
      EXPECT_THAT(process.device.outcomes, testing::Each(hold::HoldOutcome::kReleased));
      EXPECT_EQ(Destroy(process.nccl, next), ncclSuccess);
    }
    EXPECT_EQ(process.streams.events, 0);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  job.Run();
  EXPECT_TRUE(job.status().ok()) << job.status().ToString();
}

// The order of a communicator's operations is asked of the device right after each, not
// of the stream of the one before, which may be gone.
TEST(HeldMeetingTest, OperationsFollowThoseOfStreamsThatAreGone) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, RankOf(guest), 7);
    EXPECT_EQ(process.AllReduce(communicator, 1), ncclSuccess);
    process.streams.gone.insert(FakeStreams::Stream(1));
    EXPECT_EQ(process.AllReduce(communicator, 2), ncclSuccess);
    process.device.Synchronize();
    EXPECT_THAT(process.streams.joins,
                Contains(Pair(FakeStreams::Stream(2), FakeStreams::Stream(1))));
    EXPECT_EQ(process.gpu.HoldFailure(), "");
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
}

}  // namespace
}  // namespace vrank::nccl
