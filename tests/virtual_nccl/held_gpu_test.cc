// libnccl's core on a real GPU's interface: the device is a thread (FakeDevice), the
// emulator is the real one (World). What a kernel would hold, a thread holds.

#include "gpu_hold/held_gpu.h"

#include <atomic>
#include <chrono>
#include <memory>
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
using testing::Each;
using testing::HasSubstr;

// Shows that something does not happen; too short makes a test weak, not wrong.
constexpr milliseconds kAMoment{30};

TEST(HeldGpuTest, AStreamIsHeldUntilTheLastMemberHasCome) {
  std::atomic<bool> second_called{false}, first_was_held{false};
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, static_cast<int>(guest.rank()), 7);
    if (guest.rank() == 0) {
      EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
      // The call has returned; the device has got to it and waits.
      first_was_held = !process.device.SynchronizeFor(kAMoment) && !second_called;
    } else {
      while (!first_was_held)
        std::this_thread::yield();
      second_called = true;
      EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    }
    process.device.Synchronize();
    EXPECT_TRUE(second_called);
    EXPECT_THAT(process.device.outcomes, Each(hold::HoldOutcome::kReleased));
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
    EXPECT_EQ(process.gpu.HoldFailure(), "");
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  ASSERT_EQ(job.world().results().Collectives().size(), 1u);
}

// The engine's order is the devices', not the calls'.
TEST(HeldGpuTest, AnOperationIsToldWhenTheStreamGetsThere) {
  std::atomic<int> arrived{0};
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, static_cast<int>(guest.rank()), 7);
    process.device.stalls = guest.rank() == 0;
    const int64_t before = guest.channel().Now().nanoseconds();
    EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    if (guest.rank() == 0) {
      std::this_thread::sleep_for(kAMoment);
      process.device.stalls = false;
    }
    process.device.Synchronize();
    ++arrived;
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
    // The clock of the rank that was busy elsewhere shows the wait.
    EXPECT_GE(guest.channel().Now().nanoseconds() - before,
              guest.rank() == 0 ? std::chrono::nanoseconds(kAMoment).count() : 0);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(arrived, 2);
}

TEST(HeldGpuTest, ManyOperationsOfTwoCommunicatorsAndStreams) {
  constexpr int kCalls = 200;
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const first = process.Init(2, static_cast<int>(guest.rank()), 7);
    ncclComm_t const second = process.Init(2, static_cast<int>(guest.rank()), 8);
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_EQ(process.AllReduce(i % 3 == 0 ? first : second, 1 + i % 2), ncclSuccess);
    }
    process.device.Synchronize();
    EXPECT_EQ(process.device.outcomes.size() % kCalls, 0u);
    EXPECT_THAT(process.device.outcomes, Each(hold::HoldOutcome::kReleased));
    // A communicator's operations follow each other across streams.
    EXPECT_GT(process.streams.joins.size(), 0u);
    EXPECT_EQ(Destroy(process.nccl, first), ncclSuccess);
    EXPECT_EQ(Destroy(process.nccl, second), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(job.world().results().Collectives().size(), size_t{kCalls});
}

// Rings, tokens and device memory of communicators that are gone are used again.
TEST(HeldGpuTest, CommunicatorsComeAndGo) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    for (unsigned char i = 0; i < 20; ++i) {
      ncclComm_t const made = process.Init(2, static_cast<int>(guest.rank()), 1 + i);
      EXPECT_EQ(process.AllReduce(made), ncclSuccess);
      EXPECT_EQ(Destroy(process.nccl, made), ncclSuccess);
      EXPECT_LE(process.device.rings(), 3u);
    }
    EXPECT_EQ(process.streams.allocated, 0u);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
}

TEST(HeldGpuTest, ARefusedLaunchIsTheCallsError) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(1, 0, 7);
    process.device.refuses = true;
    // Of one rank an all-reduce is a copy, which holds nothing; a transfer is one.
    EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    EXPECT_EQ(process.streams.copies.size(), 1u);
    process.group.Start();
    for (const Request::Kind kind : {Request::kSend, Request::kReceive})
      EXPECT_EQ(Enqueue(process.nccl, process.group,
                        {.function = "ncclSend",
                         .kind = kind,
                         .send = process.buffer,
                         .receive = process.buffer + 64,
                         .count = 16,
                         .type = ncclFloat32,
                         .root = 0,
                         .communicator = communicator,
                         .stream = static_cast<cudaStream_t>(FakeStreams::Stream(1))}),
                ncclSuccess);
    EXPECT_EQ(process.group.End(process.nccl), ncclSystemError);
    EXPECT_THAT(process.gpu.HoldFailure(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    ncclResult_t health = ncclSuccess;
    EXPECT_EQ(CommunicatorHealth(process.nccl, communicator, &health), ncclSuccess);
    EXPECT_EQ(health, ncclSystemError);
  };
  FakeJob job(1, {{0, program}});
  job.Run();
  EXPECT_TRUE(job.status().ok()) << job.status().ToString();
}

// Each launch of a graph holds what it captured, among the holds of calls, for a member
// that is late.
TEST(HeldGpuTest, CapturedOperationsAreHeldAtEachLaunch) {
  constexpr int kLaunches = 3;
  std::atomic<bool> second_called{false}, first_was_held{false};
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, static_cast<int>(guest.rank()), 7);
    void* const stream = FakeStreams::Stream(5);
    process.streams.SetCapture(stream, 99);
    process.device.BeginCapture(stream);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(process.AllReduce(communicator, 5), ncclSuccess);
    const auto graph = process.device.EndCapture(stream);
    process.streams.SetCapture(stream, 0);
    // What is captured is ordered by its edges, and each launch by events.
    EXPECT_THAT(process.streams.at_launch,
                testing::ElementsAre(testing::Pair("await", stream),
                                     testing::Pair("record", stream),
                                     testing::Pair("record", stream)));
    process.device.Synchronize();
    EXPECT_TRUE(process.device.outcomes.empty());
    if (guest.rank() == 1) {
      while (!first_was_held)
        std::this_thread::yield();
      second_called = true;
    }
    for (int i = 0; i < kLaunches; ++i) {
      process.device.LaunchGraph(graph);
      if (guest.rank() == 0 && i == 0)
        first_was_held = !process.device.SynchronizeFor(kAMoment) && !second_called;
      EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    }
    process.device.Synchronize();
    EXPECT_THAT(process.device.outcomes, Each(hold::HoldOutcome::kReleased));
    EXPECT_EQ(process.gpu.HoldFailure(), "");
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(job.world().results().Collectives().size(), size_t{kLaunches} * 3);
}

// Nobody but the device knows of a launch that has not begun: whoever destroys the
// communicator waits for the device, and its hold is held.
TEST(HeldGpuTest, ADestroyWaitsForGraphsThatHaveBeenLaunched) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, static_cast<int>(guest.rank()), 7);
    void* const stream = FakeStreams::Stream(5);
    process.streams.SetCapture(stream, 99);
    process.device.BeginCapture(stream);
    EXPECT_EQ(process.AllReduce(communicator, 5), ncclSuccess);
    const auto graph = process.device.EndCapture(stream);
    process.streams.SetCapture(stream, 0);
    process.device.stalls = true;
    process.device.LaunchGraph(graph);
    std::thread device([&] {
      std::this_thread::sleep_for(kAMoment);
      process.device.stalls = false;
    });
    EXPECT_EQ(Destroy(process.nccl, communicator), ncclSuccess);
    EXPECT_FALSE(process.device.stalls);
    device.join();
    process.device.Synchronize();
    EXPECT_THAT(process.device.outcomes, Each(hold::HoldOutcome::kReleased));
    EXPECT_FALSE(process.device.outcomes.empty());
    EXPECT_EQ(process.gpu.HoldFailure(), "");
  };
  FakeJob job(2, {{0, program}, {1, program}});
  EXPECT_EQ(job.Run(), FakeJob::Outcome::kFinished) << job.status().ToString();
  EXPECT_EQ(job.world().results().Collectives().size(), 1u);
}

// A call that waits for room in the device's queue keeps no other thread from asking
// after, or aborting, its communicator; which leaves the others as they were.
TEST(HeldGpuTest, AnAbortFreesACallThatWaitsForTheQueue) {
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const stuck = process.Init(2, static_cast<int>(guest.rank()), 7);
    if (guest.rank() == 0) {
      process.device.queue_limit = 1;
      std::atomic<bool> aborted{false};
      std::atomic<int> calls{0};
      std::thread caller([&] {
        Group group;
        while (!aborted) {
          process.AllReduce(stuck, 1, &group);
          ++calls;
        }
      });
      while (calls < 2)  // one runs, one is queued
        std::this_thread::yield();
      std::this_thread::sleep_for(kAMoment);
      EXPECT_EQ(calls, 2);
      ncclResult_t health = ncclInternalError;
      EXPECT_EQ(CommunicatorHealth(process.nccl, stuck, &health), ncclSuccess);
      EXPECT_EQ(health, ncclSuccess);
      EXPECT_EQ(Abort(process.nccl, stuck), ncclSuccess);
      aborted = true;
      caller.join();
    } else {
      EXPECT_EQ(Abort(process.nccl, stuck), ncclSuccess);
    }
    ncclComm_t const next = process.Init(2, static_cast<int>(guest.rank()), 8);
    EXPECT_EQ(process.AllReduce(next), ncclSuccess);
    process.device.Synchronize();
    EXPECT_EQ(process.gpu.HoldFailure(), "");
    EXPECT_EQ(Destroy(process.nccl, next), ncclSuccess);
  };
  FakeJob job(2, {{0, program}, {1, program}});
  job.Run();
  EXPECT_TRUE(job.status().ok()) << job.status().ToString();
}

// The emulator calls the run off while a stream is held.
TEST(HeldGpuTest, TheDeviceLeavesWhenTheEmulatorIsGone) {
  std::atomic<bool> held{false}, off{false};
  std::string failure;
  FakeJob* job = nullptr;
  const auto program = [&](Guest& guest) {
    HeldProcess process(&guest);
    ncclComm_t const communicator = process.Init(2, static_cast<int>(guest.rank()), 7);
    if (guest.rank() == 1) {
      while (!off)
        std::this_thread::yield();
      return;
    }
    EXPECT_EQ(process.AllReduce(communicator), ncclSuccess);
    EXPECT_FALSE(process.device.SynchronizeFor(kAMoment));
    held = true;
    process.device.Synchronize();
    EXPECT_THAT(process.device.outcomes, Each(hold::HoldOutcome::kAborted));
    failure = process.gpu.HoldFailure();
    EXPECT_EQ(process.AllReduce(communicator), ncclRemoteError);
    off = true;
  };
  FakeJob made(2, {{0, program}, {1, program}});
  job = &made;
  std::thread caller([&] {
    while (!held)
      std::this_thread::yield();
    // As GuestLink::Abort, but for the message: nobody asks, so nobody exits.
    job->world().real()[0]->link().Abort("the run has ended");
  });
  made.Run();
  caller.join();
  EXPECT_THAT(failure, HasSubstr("the emulator is gone"));
}

}  // namespace
}  // namespace vrank::nccl
