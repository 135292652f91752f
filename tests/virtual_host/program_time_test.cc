// The program's own time between its calls moves the clock, or does not, as --host-time
// says, and is sent where it is to be recorded.

#include "virtual_host/channel/program_time.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/program_call.h"
#include "tests/virtual_host/fake_emulator.h"
#include "virtual_host/channel/guest_channel.h"

namespace vrank::host {
namespace {

using protocol::HostTime;
using protocol::RecordKind;

class ProgramTimeTest : public ::testing::Test {
 protected:
  // `body` on a thread that issues work, whose channel is told `settings`.
  const std::vector<SeenRecord>& Run(const protocol::Settings& settings,
                                     std::function<void(GuestChannel&)> body,
                                     std::vector<protocol::RecordedGap> gaps = {}) {
    linked_ = std::make_unique<LinkedChannel>(settings);
    linked_->link().PlayGaps(gaps);
    emulator_ = std::make_unique<FakeEmulator>(&linked_->link(), nullptr);
    std::thread([&] {
      ASSERT_TRUE(linked_->channel().ClaimRank());
      body(linked_->channel());
    }).join();
    return emulator_->Stop();
  }
  // Of Run's thread, as its gaps state it.
  uint64_t RoleOfTheIssuer() {
    uint64_t role = 0;
    for (const SeenRecord& each :
         Run(With(HostTime::kModelled, true),
             [](GuestChannel& channel) { Call(channel, "a"); }))
      if (each.record().kind == RecordKind::kHostGaps)
        role = each.As<protocol::HostGaps>().role;
    return role;
  }
  static void Call(GuestChannel& channel, const char* function) {
    ProgramCall call(&channel, function);
  }
  static void Compute(int64_t ns) {
    const int64_t until = ThreadClock::Cpu() + ns;
    while (ThreadClock::Cpu() < until) {
    }
  }
  // Without a counter each stretch is read from the thread's CPU clock.
  static protocol::Settings With(HostTime mode, bool records = false) {
    protocol::Settings settings = TestSettings();
    settings.host_time = mode;
    settings.records_gaps = records ? 1 : 0;
    settings.host_speed_millionths = 1'000'000;
    return settings;
  }
  std::unique_ptr<LinkedChannel> linked_;
  std::unique_ptr<FakeEmulator> emulator_;
};

constexpr int64_t kSome = 2'000'000;

TEST_F(ProgramTimeTest, ModelledTakesNone) {
  Run(With(HostTime::kModelled), [](GuestChannel& channel) {
    const TimePoint before = channel.ProcessNow();
    Call(channel, "a");
    Compute(kSome);
    Call(channel, "b");
    EXPECT_EQ(channel.ProcessNow(), before);
  });
}

TEST_F(ProgramTimeTest, MeasuredPassesWithTheNextCall) {
  const auto& seen = Run(With(HostTime::kMeasured), [](GuestChannel& channel) {
    Call(channel, "a");
    const TimePoint before = channel.ProcessNow();
    Compute(kSome);
    EXPECT_EQ(channel.ProcessNow(), before);
    Call(channel, "b");
    EXPECT_GE(channel.ProcessNow() - before, Duration::Nanoseconds(kSome));
    channel.Emit(
        protocol::Lane{.record = {.kind = RecordKind::kReleaseLane}, .lane = 1});
  });
  const auto measured = std::find_if(seen.begin(), seen.end(), [](const auto& each) {
    return (each.record().flags & protocol::kHostTimeMeasured) != 0;
  });
  ASSERT_NE(measured, seen.end());
  EXPECT_EQ(measured->record().kind, RecordKind::kHost);
  EXPECT_GE(measured->record().host_ns, kSome);
}

TEST_F(ProgramTimeTest, WhatOursTakeIsLeftOut) {
  Run(With(HostTime::kMeasured), [](GuestChannel& channel) {
    Call(channel, "a");
    const TimePoint before = channel.ProcessNow();
    {
      ProgramCall call(&channel, "b");
      Compute(kSome);
      ProgramCall nested(&channel, "c");
      Compute(kSome);
    }
    {
      InsideScope inside;
      Compute(kSome);
    }
    Call(channel, "d");
    EXPECT_LT(channel.ProcessNow() - before, Duration::Nanoseconds(kSome));
  });
}

TEST_F(ProgramTimeTest, AFasterHostTakesLess) {
  protocol::Settings settings = With(HostTime::kMeasured);
  settings.host_speed_millionths = 1'000'000'000;  // a thousand times
  Run(settings, [](GuestChannel& channel) {
    Call(channel, "a");
    const TimePoint before = channel.ProcessNow();
    Compute(kSome);
    Call(channel, "b");
    EXPECT_GE(channel.ProcessNow() - before, Duration::Nanoseconds(kSome / 1000));
    EXPECT_LT(channel.ProcessNow() - before, Duration::Nanoseconds(kSome));
  });
}

TEST_F(ProgramTimeTest, RecordedPassesWhereTheGapBegins) {
  AnchorHistory history(RoleOfTheIssuer());
  history.Pass(MakeAnchor("the thread's first call"));
  const uint64_t after_a = history.Pass(MakeAnchor("a")).keys[0];
  const uint64_t kind_of_b = history.Pass(MakeAnchor("b")).keys[3];
  Run(With(HostTime::kRecorded),
      [](GuestChannel& channel) {
        const TimePoint before = channel.ProcessNow();
        Call(channel, "a");
        EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(1234));
        Compute(kSome);
        EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(1234));
        Call(channel, "b");
        EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(1234 + 77));
        Call(channel, "c");
        EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(1234 + 77));
      },
      {{.key = after_a, .ns = 1234}, {.key = kind_of_b, .ns = 77}});
  // By eight calls, by the kind, and twice (at the beginning, and behind c) not at all.
  EXPECT_EQ(linked_->link().gaps_found(), (std::vector<uint64_t>{1, 0, 0, 1, 2}));
}

TEST_F(ProgramTimeTest, WhatDependsOnTheEndPassesThere) {
  AnchorHistory history(RoleOfTheIssuer());
  history.Pass(MakeAnchor("the thread's first call"));
  const uint64_t after_a = history.Pass(MakeAnchor("a")).keys[0];
  const std::vector<protocol::RecordedGap> gaps = {
      {.key = after_a, .ns = 10, .rest_ns = 300},
      {.key = KeyOfEnd(after_a, MakeAnchor("b")), .ns = 0},
      {.key = KeyOfEnd(after_a, MakeAnchor("c")), .ns = 5000}};
  const std::vector<std::pair<const char*, int64_t>> ends = {
      {"b", 0}, {"c", 5000}, {"never recorded", 300}};
  for (const auto& [end, rest_ns] : ends)
    Run(
        With(HostTime::kRecorded),
        [end = end, rest_ns = rest_ns](GuestChannel& channel) {
          const TimePoint before = channel.ProcessNow();
          Call(channel, "a");
          EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(10));
          Compute(kSome);
          ProgramCall call(&channel, end);
          // A reading of the clock shows it.
          EXPECT_EQ(channel.ProcessNow() - before, Duration::Nanoseconds(10 + rest_ns));
        },
        gaps);
  EXPECT_GE(linked_->link().program_ns(), kSome);
}

TEST_F(ProgramTimeTest, GapsAreSentInOrderAndWhole) {
  constexpr int kCalls = 1000;
  uint32_t issuer = 0;
  const auto& seen = Run(With(HostTime::kModelled, true), [&](GuestChannel& channel) {
    issuer = static_cast<uint32_t>(gettid());
    for (int i = 0; i < kCalls; ++i)
      Call(channel, i % 2 == 0 ? "a" : "b");
  });
  std::vector<uint64_t> anchors, ends;
  std::vector<uint32_t> threads;
  for (const SeenRecord& each : seen) {
    if (each.record().kind != RecordKind::kHostGaps)
      continue;
    const auto& batch = each.As<protocol::HostGaps>();
    // The first one tells that the thread issues work.
    EXPECT_EQ(batch.count == 0, threads.empty());
    threads.push_back(batch.thread);
    const auto* gaps = reinterpret_cast<const protocol::HostGap*>(&batch + 1);
    for (uint32_t i = 0; i < batch.count; ++i)
      anchors.push_back(gaps[i].anchor);
    if (batch.count == 0)
      continue;
    if (!ends.empty()) {
      EXPECT_EQ(ends.back() & kAnchorKind, gaps[0].anchor & kAnchorKind);
    }
    ends.push_back(batch.end);
  }
  EXPECT_GT(ends.size(), 10u);
  EXPECT_THAT(threads, ::testing::Each(issuer));
  ASSERT_EQ(anchors.size(), static_cast<size_t>(kCalls));
  EXPECT_EQ(anchors[0], MakeAnchor("the thread's first call"));
  for (size_t i = 1; i < anchors.size(); ++i)
    EXPECT_EQ(anchors[i], MakeAnchor(i % 2 == 1 ? "a" : "b"));
}

}  // namespace
}  // namespace vrank::host
