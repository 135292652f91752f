// Many threads and communicators at once, by chance, on a held GPU: calls, captures and
// launches of graphs, groups, windows, watchdogs, aborts of what another thread uses.
// No operation is lost or told twice. Meant for the sanitizers.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu_hold/held_gpu.h"
#include "tests/gpu_hold/fake_device.h"
#include "tests/gpu_hold/fake_streams.h"
#include "tests/virtual_gpu/core/fake_channel.h"
#include "virtual_nccl/core/creation.h"
#include "virtual_nccl/core/group.h"
#include "virtual_nccl/core/library.h"
#include "virtual_nccl/core/release.h"

namespace vrank::nccl {
namespace {

constexpr int kThreads = 6;
constexpr size_t kShared = 3;  // communicators that all threads use

int Rounds() {
  return getenv("VRANK_TEST_FULL") != nullptr ? 3'000 : 150;
}
int64_t SteadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// A process whose emulator ends each operation after a few looks, and a collective of
// two ranks as soon as this one is there.
class RandomHoldsTest : public testing::Test {
 protected:
  RandomHoldsTest() {
    for (auto& cost : channel.mutable_settings().host_costs_ns)
      cost = 0;
    channel.on_published = [this](uint32_t, uint32_t) -> std::optional<TimePoint> {
      if (looks.fetch_add(1) % 4 != 0)
        return std::nullopt;
      return TimePoint();
    };
    channel.on_collect = [this](const FakeChannel::Written&) {
      Answer answer;
      answer.host = answer.end = channel.Now();
      return answer;
    };
    hold::HeldGpuOptions options;
    options.channels = 2;
    options.time_origin_ns = origin_ns;
    options.make_driver = [this](std::string*) {
      return std::make_unique<hold::BorrowedDevice>(&device);
    };
    gpu = std::make_unique<hold::HeldGpu>(&channel, &streams, std::move(options));
    nccl = std::make_unique<Library>(&channel, gpu.get());
  }

  ncclComm_t Make(Group* group) {
    const ncclUniqueId id = nccl->NewUniqueId(nullptr);
    ncclComm_t made = nullptr;
    EXPECT_EQ(InitRank(*nccl, *group,
                       {.function = "ncclCommInitRank",
                        .out = &made,
                        .ranks = 2,
                        .rank = 0,
                        .ids = &id}),
              ncclSuccess);
    return made;
  }
  ncclResult_t AllReduce(Group* group, ncclComm_t communicator, void* stream) {
    return Enqueue(*nccl, *group,
                   {.function = "ncclAllReduce",
                    .send = buffer,
                    .receive = buffer,
                    .count = sizeof buffer / sizeof(float),
                    .type = ncclFloat32,
                    .communicator = communicator,
                    .stream = static_cast<cudaStream_t>(stream)});
  }

  // One thread's share.
  class Player {
   public:
    Player(RandomHoldsTest* test, unsigned seed)
        : test_(*test),
          random_(seed),
          capturing_(hold::FakeStreams::Stream(100 + seed)),
          capture_(1000 * (seed + 1)) {}

    void Play() {
      for (int i = 0; i < Rounds(); ++i)
        Step();
      while (!own_.empty())
        Remove();
    }
    std::map<uint32_t, size_t> issued;  // by communicator

   private:
    int Upto(int limit) { return std::uniform_int_distribution(0, limit)(random_); }
    ncclComm_t Any() {
      const auto which =
          static_cast<size_t>(Upto(static_cast<int>(kShared + own_.size()) - 1));
      return which < kShared ? test_.shared[which] : own_[which - kShared];
    }

    void Step() {
      switch (Upto(9)) {
        case 0:
          if (own_.size() < 4)
            own_.push_back(test_.Make(&group_));
          return;
        case 1:
          return Remove();
        case 2:
          return Look();
        case 3:
          return Meet();
        case 4:
          return RepeatGraph();
        case 5:
          return Fuse();
        case 6:
          test_.gpu->CountHostTime();
          return;
        case 7:
          return UseUntilAborted();
        default:
          return Issue(Any(), hold::FakeStreams::Stream(1 + Upto(2)), 1);
      }
    }
    void Issue(ncclComm_t communicator, void* stream, size_t times) {
      EXPECT_EQ(test_.AllReduce(&group_, communicator, stream), ncclSuccess);
      issued[Communicator::From(communicator)->number] += times;
    }
    void Remove() {
      if (own_.empty())
        return;
      // What has been called is told before the communicator goes.
      EXPECT_EQ(Destroy(*test_.nccl, own_.back()), ncclSuccess);
      own_.pop_back();
    }
    void Look() {
      ncclResult_t health = ncclInternalError;
      EXPECT_EQ(CommunicatorHealth(*test_.nccl, Any(), &health), ncclSuccess);
      EXPECT_EQ(health, ncclSuccess);
    }
    void Meet() {
      group_.Start();
      EXPECT_EQ(group_.AddWindow(Communicator::From(Any())), ncclSuccess);
      EXPECT_EQ(group_.End(*test_.nccl), ncclSuccess);
    }
    void Fuse() {
      group_.Start();
      for (int i = Upto(3); i >= 0; --i)
        Issue(Any(), hold::FakeStreams::Stream(1 + Upto(2)), 1);
      EXPECT_EQ(group_.End(*test_.nccl), ncclSuccess);
    }
    void RepeatGraph() {
      const auto launches = static_cast<size_t>(Upto(3));
      ncclComm_t const communicator = test_.shared[0];
      test_.streams.SetCapture(capturing_, ++capture_);
      test_.device.BeginCapture(capturing_);
      for (int i = Upto(2); i >= 0; --i)
        Issue(communicator, capturing_, launches);
      const auto graph = test_.device.EndCapture(capturing_);
      test_.streams.SetCapture(capturing_, 0);
      for (size_t i = 0; i < launches; ++i)
        test_.device.LaunchGraph(graph);
    }
    // As a watchdog frees a thread that is in a call.
    void UseUntilAborted() {
      ncclComm_t const victim = test_.Make(&group_);
      std::atomic<bool> begun{false};
      std::thread caller([&] {
        Group group;
        begun = true;
        while (test_.AllReduce(&group, victim, hold::FakeStreams::Stream(9)) ==
               ncclSuccess)
          std::this_thread::yield();
      });
      while (!begun)
        std::this_thread::yield();
      EXPECT_EQ(Abort(*test_.nccl, victim), ncclSuccess);
      caller.join();
    }

    RandomHoldsTest& test_;
    std::mt19937 random_;
    Group group_;
    std::vector<ncclComm_t> own_;
    void* const capturing_;  // a stream
    uint64_t capture_;
  };

  const int64_t origin_ns = SteadyNs();
  std::atomic<uint32_t> looks{0};
  FakeChannel channel;
  hold::FakeDevice device;
  hold::FakeStreams streams;
  std::unique_ptr<hold::HeldGpu> gpu;
  std::unique_ptr<Library> nccl;
  std::array<ncclComm_t, kShared> shared{};
  alignas(64) unsigned char buffer[4096] = {};
};

TEST_F(RandomHoldsTest, LosesNothing) {
  device.queue_limit = 16;
  Group group;
  for (ncclComm_t& each : shared)
    each = Make(&group);
  std::vector<std::unique_ptr<Player>> players;
  for (unsigned seed = 0; seed < kThreads; ++seed)
    players.push_back(std::make_unique<Player>(this, seed));
  std::vector<std::thread> threads;
  for (auto& player : players)
    threads.emplace_back([&player] { player->Play(); });
  for (std::thread& thread : threads)
    thread.join();
  device.Synchronize();
  for (ncclComm_t each : shared)
    EXPECT_EQ(Destroy(*nccl, each), ncclSuccess);
  EXPECT_EQ(gpu->HoldFailure(), "");
  EXPECT_EQ(streams.events, 0);
  std::map<uint32_t, size_t> issued, told;
  for (const auto& player : players)
    for (const auto& [communicator, count] : player->issued)
      issued[communicator] += count;
  for (const auto& record : channel.records(protocol::RecordKind::kCollective))
    ++told[record.as<protocol::Collective>().communicator];
  for (const auto& [communicator, count] : issued)
    EXPECT_EQ(told[communicator], count) << communicator;
}

// The emulator goes while all of that is under way: every call returns, and every
// stream goes on.
TEST_F(RandomHoldsTest, TheEndOfTheEmulatorFreesAll) {
  device.queue_limit = 16;
  Group first;
  for (ncclComm_t& each : shared)
    each = Make(&first);
  channel.on_published = [](uint32_t, uint32_t) { return std::nullopt; };
  std::vector<std::thread> threads;
  for (uintptr_t i = 0; i < kThreads; ++i)
    threads.emplace_back([this, i] {
      Group group;
      ncclResult_t result = ncclSuccess;
      while (result == ncclSuccess)
        result =
            AllReduce(&group, shared[i % kShared], hold::FakeStreams::Stream(1 + i));
      EXPECT_THAT(result, testing::AnyOf(ncclSystemError, ncclRemoteError));
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  channel.is_aborting = true;
  for (std::thread& thread : threads)
    thread.join();
  device.Synchronize();
  EXPECT_THAT(gpu->HoldFailure(), testing::HasSubstr("the emulator is gone"));
  for (ncclComm_t each : shared)
    EXPECT_EQ(Destroy(*nccl, each), ncclSuccess);
  EXPECT_EQ(streams.events, 0);
}

}  // namespace
}  // namespace vrank::nccl
