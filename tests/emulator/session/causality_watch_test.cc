// A "not yet" that was a guess is an error exactly where a later op contradicts it.

#include "emulator/session/causality_watch.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/world/fake_job.h"

namespace vrank::emulator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Rank 0 asks at 1 ms whether the transfer from rank 1 has ended. Rank 1 waits unseen
// until it has been answered, and sends when its own clock shows `sends_at`.
struct Story {
  explicit Story(Duration sends_at) {
    std::atomic<bool> answered{false};
    const auto program = [&](Guest& guest) {
      guest.Init(2);
      if (guest.rank() == 0) {
        guest.Transfer(1, false);
        guest.Record(1);
        guest.channel().Spend(Duration::Milliseconds(1));
        ended = guest.Query(1);
        answered = true;
        guest.Synchronize();
        return;
      }
      while (!answered)
        std::this_thread::yield();
      guest.channel().Spend(sends_at);
      guest.Transfer(0, true);
      guest.Synchronize();
    };
    FakeJob job(2, {{0, program}, {1, program}});
    outcome = job.Run([&] {
      const auto query = job.world().OldestQuery();
      if (!query.has_value() || answered || told)
        return;
      told = true;
      watch.Told(query->rank, query->asked_ns);
      before = watch.Check(job.world());
      job.world().DecideOldestQuery();
    });
    after = watch.Check(job.world());
  }

  CausalityWatch watch;
  FakeJob::Outcome outcome;
  bool told = false;
  bool ended = true;
  absl::Status before, after;
};

TEST(CausalityWatchTest, AcceptsWhatALaterOpConfirms) {
  const Story story(Duration::Milliseconds(5));
  EXPECT_EQ(story.outcome, FakeJob::Outcome::kFinished);
  EXPECT_TRUE(story.told);
  EXPECT_FALSE(story.ended);
  EXPECT_TRUE(story.before.ok());
  EXPECT_TRUE(story.after.ok()) << story.after.ToString();
}

TEST(CausalityWatchTest, NamesTheRankThatALaterOpContradicts) {
  const Story story(Duration::Microseconds(1));
  EXPECT_TRUE(story.told);
  EXPECT_FALSE(story.ended);
  EXPECT_TRUE(story.before.ok());
  EXPECT_FALSE(story.after.ok());
  EXPECT_THAT(std::string(story.after.message()),
              AllOf(HasSubstr("causality violation: rank 0"),
                    HasSubstr("last at 0.001"), HasSubstr("cudaEventSynchronize")));
}

}  // namespace
}  // namespace vrank::emulator
