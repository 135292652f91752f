// Threads that issue work at the same time are counted, and those that take turns are
// not, however they are scheduled.

#include "virtual_host/turns/issuing_threads.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

constexpr int kTurns = 40;

class IssuingThreadsTest : public testing::Test {
 protected:
  // A call of the GPU's API that launches a kernel.
  void Launch() {
    protocol::Kernel record{};
    record.record.kind = RecordKind::kKernel;
    channel_.Emit(record);
    channel_.LetHelpersRun();
  }
  // A call that waits until the emulator answers.
  void Synchronize() {
    protocol::HostWait record{};
    record.record.kind = RecordKind::kHostWaitLane;
    channel_.Ask(record);
  }
  int Counted() const { return counted_; }
  // Every thread issues until the first loss is counted, and a bit longer.
  void IssueAtTheSameTime(int threads) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::atomic<int> ready{0};
    std::vector<std::thread> issuers;
    for (int i = 0; i < threads; ++i)
      issuers.emplace_back([&] {
        ++ready;
        while (ready != threads)
          std::this_thread::yield();
        while (counted_ < threads && std::chrono::steady_clock::now() < deadline)
          Launch();
        for (int turn = 0; turn < kTurns; ++turn)
          Launch();
      });
    for (std::thread& issuer : issuers)
      issuer.join();
  }

  LinkedChannel linked_;
  GuestChannel& channel_ = linked_.channel();
  std::atomic<int> counted_{0};
  std::atomic<bool> answers_{true};  // false: with the next launch
  std::atomic<int> questions_{0};
  uint32_t open_ = protocol::kNoSlot;
  FakeEmulator emulator_{
      &linked_.link(), [this](emulator::GuestLink& link, const protocol::Record& r) {
        if (r.kind == RecordKind::kLoss) {
          const auto& loss = reinterpret_cast<const protocol::Loss&>(r);
          EXPECT_EQ(loss.loss, static_cast<uint32_t>(LossId::kThreadsIssue));
          counted_ += static_cast<int>(loss.amount);
        } else if (r.kind == RecordKind::kCommInit) {
          link.Answer(reinterpret_cast<const protocol::CommInit&>(r).slot,
                      {.value = 1});
        } else if (r.kind == RecordKind::kHostWaitLane) {
          const uint32_t slot = reinterpret_cast<const protocol::HostWait&>(r).slot;
          if (answers_)
            link.Answer(slot, {});
          else
            open_ = slot;
          ++questions_;
        } else if (r.kind == RecordKind::kKernel) {
          link.Answer(std::exchange(open_, protocol::kNoSlot), {});
        }
      }};
};

TEST_F(IssuingThreadsTest, CountsTwoThatIssueAtTheSameTime) {
  std::thread([this] { ASSERT_TRUE(channel_.ClaimRank()); }).join();
  IssueAtTheSameTime(2);
  emulator_.Stop();
  EXPECT_EQ(Counted(), 2);
}

TEST_F(IssuingThreadsTest, CountsEachOfManyOnce) {
  std::thread([this] { ASSERT_TRUE(channel_.ClaimRank()); }).join();
  IssueAtTheSameTime(5);
  emulator_.Stop();
  EXPECT_EQ(Counted(), 5);
}

TEST_F(IssuingThreadsTest, CountsNobodyWhereAConditionVariableHandsOver) {
  std::thread([this] { ASSERT_TRUE(channel_.ClaimRank()); }).join();
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  const auto take_turns = [&](int me) {
    for (int i = 0; i < kTurns; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return turn % 3 == me; });
      lock.unlock();
      Launch();
      Launch();
      lock.lock();
      ++turn;
      lock.unlock();
      changed.notify_all();
      // What it does before it waits for the next one differs from run to run.
      for (std::atomic<int> work = 0; work < 1000 * (i % 5); ++work) {
      }
    }
  };
  std::vector<std::thread> threads;
  for (int me = 0; me < 3; ++me)
    threads.emplace_back(take_turns, me);
  for (std::thread& thread : threads)
    thread.join();
  emulator_.Stop();
  EXPECT_EQ(Counted(), 0);
}

TEST_F(IssuingThreadsTest, CountsNobodyWhereThreadsAreJoined) {
  std::thread([this] {
    ASSERT_TRUE(channel_.ClaimRank());
    for (int i = 0; i < kTurns; ++i) {
      Launch();
      std::thread([this] { Launch(); }).join();
      std::thread([this] { Launch(); }).join();
    }
  }).join();
  emulator_.Stop();
  EXPECT_EQ(Counted(), 0);
}

// Its clock is the emulator's to move, and it did not wait for the other thread.
TEST_F(IssuingThreadsTest, CountsOneThatWaitsForTheGpuMeanwhile) {
  answers_ = false;
  std::thread first([this] {
    ASSERT_TRUE(channel_.ClaimRank());
    Launch();
    Synchronize();
  });
  while (questions_ == 0)
    std::this_thread::yield();
  std::thread([this] { Launch(); }).join();
  first.join();
  emulator_.Stop();
  EXPECT_EQ(Counted(), 2);
}

TEST_F(IssuingThreadsTest, MakesAHelperThatCreatesACommunicatorAnIssuer) {
  std::thread([this] {
    ASSERT_TRUE(channel_.ClaimRank());
    std::thread([this] {
      EXPECT_FALSE(thread_state.issuing());
      Synchronize();  // as a watchdog does
      EXPECT_FALSE(thread_state.issuing());
      protocol::CommInit record{};
      record.record.kind = RecordKind::kCommInit;
      channel_.Ask(record);
      EXPECT_TRUE(thread_state.issuing());
      channel_.Spend(Duration::Nanoseconds(7));
      Launch();
    }).join();
  }).join();
  const std::vector<SeenRecord>& seen = emulator_.Stop();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].record().flags, protocol::kFromHelper);
  EXPECT_EQ(seen[1].record().kind, RecordKind::kCommInit);
  EXPECT_EQ(seen[1].record().flags, 0);
  EXPECT_EQ(seen[2].record().host_ns, 7);
}

}  // namespace
}  // namespace vrank::host
