#include "virtual_host/channel/guest_channel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/turns/session_end.h"
#include "virtual_host/turns/thread_state.h"

namespace vrank::host {
namespace {

using protocol::RecordKind;

// Each test gets a thread of its own: what a thread is to the channel (issuing or not)
// lasts as long as the thread.
template <typename Body>
void OnFreshThread(Body body) {
  std::thread(body).join();
}

protocol::Kernel Kernel() {
  protocol::Kernel record{};
  record.record.kind = RecordKind::kKernel;
  record.lane = 1;
  return record;
}

protocol::HostWait Wait() {
  protocol::HostWait record{};
  record.record.kind = RecordKind::kHostWaitLane;
  record.target = 1;
  return record;
}

int64_t Clock(const GuestChannel& channel) {
  return channel.Peek().nanoseconds();
}

TEST(GuestChannelTest, PutsSpentTimeIntoTheNextRecord) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Nanoseconds(70));
    channel.Spend(Duration::Nanoseconds(30));
    channel.Emit(Kernel());
    channel.Emit(Kernel());
    EXPECT_EQ(Clock(channel), 100);
  });
  const protocol::Record* first = linked.link().Next();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->kind, RecordKind::kKernel);
  EXPECT_EQ(first->host_ns, 100);
  EXPECT_EQ(first->flags, 0);
  linked.link().Consume();
  EXPECT_EQ(linked.link().Next()->host_ns, 0);
}

TEST(GuestChannelTest, WritesThePeaksOfAnAllocatorBeforeTheNextLaunch) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.NoteAllocator(0, 100, 500);
    channel.NoteAllocator(0, 300, 500);
    channel.NoteAllocator(0, 200, 500);
    channel.NoteAllocator(AllocatorPeaks::kMostDevices, 1, 1);
    channel.Emit(Kernel());
    channel.NoteAllocator(0, 300, 500);  // no peak
    channel.Emit(Kernel());
  });
  const protocol::Record* first = linked.link().Next();
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(first->kind, RecordKind::kAllocatorPeak);
  const auto& peak = reinterpret_cast<const protocol::AllocatorPeak&>(*first);
  EXPECT_EQ(peak.allocated_bytes, 300u);
  EXPECT_EQ(peak.reserved_bytes, 500u);
  for (int kernel = 0; kernel < 2; ++kernel) {
    linked.link().Consume();
    ASSERT_NE(linked.link().Next(), nullptr);
    EXPECT_EQ(linked.link().Next()->kind, RecordKind::kKernel);
  }
}

TEST(GuestChannelTest, WritesTheBlocksOfAnAllocatorBeforeTheNextLaunch) {
  using protocol::BlockChange;
  constexpr size_t kMany = AllocatorBlocks::kMost + 10;
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.NoteAllocatorBlock({0x1000, 512, BlockChange::kTaken, 0});
    channel.NoteAllocatorBlock({0x1000, 512, BlockChange::kGivenBack, 0});
    channel.Emit(Kernel());
    channel.Emit(Kernel());
    for (size_t i = 0; i < kMany; ++i)
      channel.NoteAllocatorBlock({i, 1, BlockChange::kTakenInBackward, 1});
    channel.Emit(Kernel());
  });
  const auto* first = linked.link().Next();
  ASSERT_NE(first, nullptr);
  ASSERT_EQ(first->kind, RecordKind::kAllocatorBlocks);
  const auto& two = reinterpret_cast<const protocol::AllocatorBlocks&>(*first);
  ASSERT_EQ(two.count, 2u);
  EXPECT_EQ(two.incomplete, 0u);
  const auto* blocks = reinterpret_cast<const protocol::AllocatorBlock*>(&two + 1);
  EXPECT_EQ(blocks[0].address, 0x1000u);
  EXPECT_EQ(blocks[1].change, BlockChange::kGivenBack);
  for (int kernel = 0; kernel < 2; ++kernel) {
    linked.link().Consume();
    ASSERT_NE(linked.link().Next(), nullptr);
    EXPECT_EQ(linked.link().Next()->kind, RecordKind::kKernel);
  }
  size_t count = 0;
  bool incomplete = false;
  for (linked.link().Consume(); linked.link().Next() != nullptr &&
                                linked.link().Next()->kind != RecordKind::kKernel;
       linked.link().Consume()) {
    const auto& some =
        reinterpret_cast<const protocol::AllocatorBlocks&>(*linked.link().Next());
    ASSERT_EQ(some.record.kind, RecordKind::kAllocatorBlocks);
    count += some.count;
    incomplete |= some.incomplete != 0;
  }
  EXPECT_EQ(count, AllocatorBlocks::kMost);
  EXPECT_TRUE(incomplete);
}

TEST(GuestChannelTest, TellsAssumedTimeFromStatedTime) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.SpendAssumed(Duration::Nanoseconds(70));
    channel.SpendAssumed(Duration::Nanoseconds(1));
    channel.Spend(Duration::Nanoseconds(30));
    channel.Emit(Kernel());
    channel.SpendAssumed(Duration::Nanoseconds(5));
    channel.Emit(Kernel());
    EXPECT_EQ(Clock(channel), 106);
  });
  const struct {
    RecordKind kind;
    int64_t host_ns;
    uint16_t flags;
  } expected[] = {{RecordKind::kHost, 71, protocol::kHostTimeAssumed},
                  {RecordKind::kKernel, 30, 0},
                  {RecordKind::kKernel, 5, protocol::kHostTimeAssumed}};
  for (const auto& wanted : expected) {
    const protocol::Record* record = linked.link().Next();
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(record->kind, wanted.kind);
    EXPECT_EQ(record->host_ns, wanted.host_ns);
    EXPECT_EQ(record->flags, wanted.flags);
    linked.link().Consume();
  }
}

TEST(GuestChannelTest, TakesTheClockFromAnAnswerAndAddsWhatWasSpentSince) {
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind != RecordKind::kHostWaitLane)
          return;
        const auto& wait = reinterpret_cast<const protocol::HostWait&>(record);
        link.Answer(wait.slot, {.host_ns = 1000, .end_ns = 990, .value = 7});
      });
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Nanoseconds(40));
    const Answer answer = channel.Ask(Wait());
    EXPECT_EQ(answer.host.nanoseconds(), 1000);
    EXPECT_EQ(answer.end.nanoseconds(), 990);
    EXPECT_EQ(answer.value, 7u);
    channel.Spend(Duration::Nanoseconds(5));
    EXPECT_EQ(Clock(channel), 1005);
    channel.Emit(Kernel());
  });
  const std::vector<SeenRecord>& seen = emulator.Stop();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].record().host_ns, 40);
  EXPECT_EQ(seen[1].record().host_ns, 5);
}

TEST(GuestChannelTest, AsksForTheClockOnlyWhereTheLaunchQueueMayBeFull) {
  LinkedChannel linked;  // depth 4
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind == RecordKind::kAskClock)
          link.Answer(reinterpret_cast<const protocol::AskClock&>(record).slot,
                      {.host_ns = 5000, .retired_launches = 1});
      });
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    for (int i = 0; i < 4; ++i)
      channel.Emit(Kernel());
    EXPECT_TRUE(channel.ClockIsLocal());
    EXPECT_EQ(channel.Now().nanoseconds(), 0);
    channel.Emit(Kernel());  // waits for the end of the first
    EXPECT_FALSE(channel.ClockIsLocal());
    EXPECT_EQ(channel.Now().nanoseconds(), 5000);
    EXPECT_TRUE(channel.ClockIsLocal());
    channel.Emit(Kernel());
    EXPECT_FALSE(channel.ClockIsLocal());
    EXPECT_EQ(channel.launches(), 6u);
  });
}

TEST(GuestChannelTest, CountsAWaitingIssuerAsNotRunning) {
  LinkedChannel linked;
  std::atomic<bool> looked = false;
  std::thread rank([&] {
    ASSERT_TRUE(linked.channel().ClaimRank());
    linked.channel().Ask(Wait());
    while (!looked)
      std::this_thread::yield();
  });
  while (linked.link().Next() == nullptr)
    std::this_thread::yield();
  const uint32_t slot =
      reinterpret_cast<const protocol::HostWait*>(linked.link().Next())->slot;
  EXPECT_FALSE(linked.link().Blocked());  // the question is still to be read
  linked.link().Consume();
  while (linked.link().running_issuers() != 0)
    std::this_thread::yield();
  EXPECT_TRUE(linked.link().Blocked());
  linked.link().Answer(slot, {.host_ns = 1});
  EXPECT_FALSE(linked.link().Blocked());
  looked = true;
  rank.join();
  EXPECT_EQ(linked.link().running_issuers(), 0);  // the thread has ended
}

TEST(GuestChannelTest, LetsHelperThreadsAskWithoutMovingTheClock) {
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind == RecordKind::kHostQuery)
          link.Answer(reinterpret_cast<const protocol::HostQuery&>(record).slot,
                      {.host_ns = 9000, .complete = true});
      });
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Nanoseconds(10));
    OnFreshThread([&] {
      protocol::HostQuery query{};
      query.record.kind = RecordKind::kHostQuery;
      EXPECT_TRUE(channel.Ask(query).complete);
      channel.Spend(Duration::Seconds(1));
      EXPECT_FALSE(thread_state.issuing());
    });
    EXPECT_EQ(Clock(channel), 10);
    EXPECT_EQ(linked.link().running_issuers(), 1);
  });
  const std::vector<SeenRecord>& seen = emulator.Stop();
  // The engine judges the question by the clock of the process: that comes first.
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].record().kind, RecordKind::kHost);
  EXPECT_EQ(seen[0].record().host_ns, 10);
  EXPECT_EQ(seen[1].record().flags, protocol::kFromHelper);
  EXPECT_EQ(seen[1].record().host_ns, 0);
}

TEST(GuestChannelTest, WritesTheSameForAHelperThatKnowsTheEndAlready) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Nanoseconds(10));
    OnFreshThread([&] {
      protocol::HostQuery query{};
      query.record.kind = RecordKind::kHostQuery;
      query.slot = protocol::kNoSlot;
      channel.Emit(query);
    });
    channel.Emit(Kernel());
  });
  std::vector<std::pair<RecordKind, int64_t>> seen;
  while (const protocol::Record* record = linked.link().Next()) {
    seen.emplace_back(record->kind, record->host_ns);
    linked.link().Consume();
  }
  EXPECT_THAT(seen, testing::ElementsAre(std::pair(RecordKind::kHost, 10),
                                         std::pair(RecordKind::kHostQuery, 0),
                                         std::pair(RecordKind::kKernel, 0)));
}

TEST(GuestChannelTest, CollectsACallbackLaterWithoutMovingTheClock) {
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind == RecordKind::kHostFunc)
          link.Answer(reinterpret_cast<const protocol::HostFunc&>(record).slot,
                      {.host_ns = 777, .end_ns = 555});
      });
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    protocol::HostFunc callback{};
    callback.record.kind = RecordKind::kHostFunc;
    const uint32_t slot = channel.AskLater(callback);
    EXPECT_EQ(channel.Collect(slot).end.nanoseconds(), 555);
    EXPECT_EQ(Clock(channel), 0);
    EXPECT_EQ(linked.link().running_issuers(), 1);
  });
}

TEST(GuestChannelTest, ServesMoreOpenCallbacksThanThereAreSlots) {
  LinkedChannel linked;
  FakeEmulator emulator(
      &linked.link(), [](emulator::GuestLink& link, const protocol::Record& record) {
        if (record.kind == RecordKind::kHostFunc)
          link.Answer(reinterpret_cast<const protocol::HostFunc&>(record).slot, {});
      });
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    std::mutex mutex;
    std::vector<uint32_t> open;
    constexpr int kCallbacks = 1000;
    std::thread collector([&] {
      for (int collected = 0; collected < kCallbacks;) {
        std::vector<uint32_t> batch;
        {
          std::lock_guard lock(mutex);
          batch.swap(open);
        }
        for (uint32_t slot : batch)
          channel.Collect(slot);
        collected += static_cast<int>(batch.size());
      }
    });
    for (int i = 0; i < kCallbacks; ++i) {
      protocol::HostFunc callback{};
      callback.record.kind = RecordKind::kHostFunc;
      const uint32_t slot = channel.AskLater(callback);
      std::lock_guard lock(mutex);
      open.push_back(slot);
    }
    collector.join();
  });
}

TEST(GuestChannelTest, ReadsThePublishedEndOfTheRightGenerationOnly) {
  LinkedChannel linked;
  EXPECT_FALSE(linked.channel().PublishedEnd(3, 1).has_value());
  linked.link().Publish(3, 1, 400);
  EXPECT_EQ(linked.channel().PublishedEnd(3, 1)->nanoseconds(), 400);
  EXPECT_FALSE(linked.channel().PublishedEnd(3, 2).has_value());
  linked.link().Publish(3, 2, 800);
  EXPECT_FALSE(linked.channel().PublishedEnd(3, 1).has_value());
  EXPECT_EQ(linked.channel().PublishedEnd(3, 2)->nanoseconds(), 800);
}

TEST(GuestChannelTest, WaitsForAKnownEndWithoutAQuestion) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    protocol::TokenOnLane token{};
    token.record.kind = RecordKind::kRecordToken;
    token.token = 3;
    protocol::HostWait wait{};
    wait.record.kind = RecordKind::kHostWaitToken;
    wait.target = 3;
    wait.slot = protocol::kNoSlot;
    channel.Emit(token);
    linked.link().Publish(3, 1, 400);
    channel.Emit(wait);
    EXPECT_EQ(Clock(channel), 400);
    channel.Spend(Duration::Nanoseconds(6));
    channel.Emit(Kernel());
    // Recorded again: the end of the first generation says nothing.
    linked.link().Publish(3, 1, 4000);
    channel.Emit(token);
    channel.Emit(wait);
    EXPECT_EQ(Clock(channel), 406);
  });
  for (int i = 0; i < 2; ++i) {
    linked.link().Next();
    linked.link().Consume();
  }
  EXPECT_EQ(linked.link().Next()->host_ns, 6);  // the wait is the engine's to compute
}

TEST(GuestChannelTest, DefinesANameOnce) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    EXPECT_EQ(channel.Name("before the claim"), 0u);
    ASSERT_TRUE(channel.ClaimRank());
    EXPECT_EQ(channel.Name(""), 0u);
    EXPECT_EQ(channel.Name("gemm"), 1u);
    EXPECT_EQ(channel.Name("softmax"), 2u);
    EXPECT_EQ(channel.Name("gemm"), 1u);
  });
  const auto* first =
      reinterpret_cast<const protocol::DefineName*>(linked.link().Next());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->length, 4u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first + 1), 4), "gemm");
}

TEST(GuestChannelTest, GivesARankToOneProcessOnly) {
  LinkedChannel linked;
  OnFreshThread([&] { ASSERT_TRUE(linked.channel().ClaimRank()); });
  EXPECT_EQ(linked.link().owner_pid(), static_cast<uint32_t>(getpid()));
  Connection second;
  ASSERT_TRUE(MapSegment(linked.link().memfd(), &second));
  auto* other = new GuestChannel(second);
  EXPECT_FALSE(other->ClaimRank());
  other->Emit(Kernel());
  EXPECT_EQ(linked.link().BytesWaiting(), 0u);
}

TEST(GuestChannelTest, DetachesTheChildOfAnOwner) {
  LinkedChannel linked;
  OnFreshThread([&] {
    GuestChannel& channel = linked.channel();
    ASSERT_TRUE(channel.ClaimRank());
    channel.Spend(Duration::Nanoseconds(9));
    const pid_t child = fork();
    if (child == 0) {
      channel.BecomeForkChild();
      channel.Emit(Kernel());
      channel.Spend(Duration::Seconds(1));
      const bool right = channel.detached() && !channel.ClaimRank() &&
                         Clock(channel) == 9 &&
                         channel.Ask(Wait()).host == channel.Peek();
      _exit(right ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(channel.detached());
    EXPECT_EQ(linked.link().running_issuers(), 1);
  });
  EXPECT_EQ(linked.link().BytesWaiting(), 0u);
}

TEST(GuestChannelTest, ExitsWithTheReasonWhenTheSessionAborts) {
  LinkedChannel linked;
  EXPECT_EXIT(
      {
        std::thread rank([&] {
          linked.channel().ClaimRank();
          linked.channel().Ask(Wait());
        });
        linked.link().Abort("rank 3 never calls the all-reduce");
        rank.join();
      },
      testing::ExitedWithCode(kAbortedExit), "rank 3 never calls the all-reduce");
}

}  // namespace
}  // namespace vrank::host
