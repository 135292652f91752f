// Processes of a rank that move no clock: their sleeps are the rank's time.

#include "virtual_host/turns/other_processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/virtual_host/rank_session.h"
#include "virtual_host/turns/process_tree.h"

namespace vrank::host {
namespace {

using testing::ElementsAre;

std::string TestFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

class OtherProcessesTest : public testing::TestWithParam<const char*> {};

TEST_P(OtherProcessesTest, PassesFromInside) {
  RankSession session;
  ASSERT_TRUE(session
                  .Start({TestFolder() + "/children_guest", GetParam()},
                         TestFolder() + "/../lib/vrank")
                  .ok());
  ASSERT_TRUE(session.RunToEnd());
  EXPECT_THAT(session.lines, ElementsAre(std::string("passed ") + GetParam()));
  EXPECT_THAT(session.errors, ElementsAre());
  EXPECT_EQ(session.exit, "exit code 0");
  const auto limit = session.link->EarliestLimit();
  EXPECT_TRUE(!limit.has_value() || limit->other == nullptr);  // no child's is left
  EXPECT_FALSE(session.link->HasGrant());
}

INSTANTIATE_TEST_SUITE_P(All, OtherProcessesTest,
                         testing::Values("waits", "polls", "takes_turns", "spawns",
                                         "kills", "computes", "connects", "chains",
                                         "answers_in_order", "reads_in_order",
                                         "starts_on_the_way", "forks_beside_threads"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ProcessTreeTest, SeesWhatAChildDoes) {
  EXPECT_FALSE(ProcessTree::HasChildren());
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    for (;;) {
    }
  }
  EXPECT_TRUE(ProcessTree::HasChildren());
  ProcessTree tree;
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const TreeLook stopped = tree.Look();
  EXPECT_TRUE(stopped.idle);
  EXPECT_EQ(tree.Look().runs, stopped.runs);
  kill(child, SIGCONT);
  const TreeLook runs = tree.Look();
  EXPECT_FALSE(runs.idle);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(ProcessTree::HasChildren());
  EXPECT_TRUE(tree.Look().idle);
}

constexpr bool kWaits = false, kSleeps = true;

TEST(OtherLimitTest, EndsWhereTheEmulatorSaysSo) {
  LinkedChannel linked;
  protocol::Segment* const segment = linked.channel().segment();
  {
    OtherLimit late(segment), early(segment);
    ASSERT_TRUE(late.Begin(2000, kWaits) && early.Begin(1000, kWaits));
    EXPECT_EQ(segment->header.others_gate_ns.load(), 0);  // nobody has looked so far
    auto limit = linked.link().EarliestLimit();
    ASSERT_TRUE(limit.has_value());
    EXPECT_EQ(limit->ns, 1000);
    linked.link().GrantLimit(*limit);
    EXPECT_TRUE(early.Reached());
    EXPECT_FALSE(late.Reached());
    EXPECT_TRUE(linked.link().HasGrant());
    EXPECT_EQ(linked.link().host_now_ns(), 1000);
    early.End();
    EXPECT_FALSE(linked.link().HasGrant());
    limit = linked.link().EarliestLimit();
    ASSERT_TRUE(limit.has_value());
    EXPECT_EQ(limit->ns, 2000);
  }
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
  EXPECT_EQ(linked.link().host_now_ns(), 1000);
}

// The first sleep has to last for a while, so that all limits of its time are known.
TEST(OtherLimitTest, ASleepEndsAtRestOnceOneHasEnded) {
  LinkedChannel linked;
  OtherLimit first(linked.channel().segment()), second(linked.channel().segment()),
      wait(linked.channel().segment());
  ASSERT_TRUE(first.Begin(1000, kSleeps) && second.Begin(2000, kSleeps));
  auto limit = linked.link().EarliestLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_TRUE(limit->only_time);
  EXPECT_FALSE(limit->ends_at_rest || limit->sleeps);
  linked.link().GrantLimit(*limit);
  first.End();
  limit = linked.link().EarliestLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->ns, 2000);
  EXPECT_TRUE(limit->only_time && limit->ends_at_rest);
  EXPECT_FALSE(limit->sleeps);  // whoever issues work may do so before
  ASSERT_TRUE(wait.Begin(1500, kWaits));
  limit = linked.link().EarliestLimit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->ns, 1500);
  EXPECT_FALSE(limit->only_time || limit->ends_at_rest);
}

TEST(OtherLimitTest, OneOfAProcessThatHasEndedIsFreed) {
  LinkedChannel linked;
  protocol::Segment* const segment = linked.channel().segment();
  OtherLimit sleep(segment), wait(segment);
  ASSERT_TRUE(sleep.Begin(1000, kSleeps) && wait.Begin(2000, kWaits));
  OtherLimit::EndAllOf(segment, static_cast<uint32_t>(getpid()));
  EXPECT_FALSE(linked.link().EarliestLimit().has_value());
}

TEST(OtherLimitTest, HasRoomForManyAndSaysWhenThereIsNone) {
  LinkedChannel linked;
  std::vector<std::unique_ptr<OtherLimit>> limits;
  for (uint32_t i = 0; i < protocol::kOtherWaits; ++i) {
    limits.push_back(std::make_unique<OtherLimit>(linked.channel().segment()));
    ASSERT_TRUE(limits.back()->Begin(1000 + i, kWaits));
  }
  OtherLimit more(linked.channel().segment());
  EXPECT_FALSE(more.Begin(1, kWaits));
  limits.pop_back();
  EXPECT_TRUE(more.Begin(1, kWaits));
  EXPECT_EQ(linked.link().EarliestLimit()->ns, 1);
}

}  // namespace
}  // namespace vrank::host
