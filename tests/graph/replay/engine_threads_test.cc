// Waits of one thread while another one of its process has issued more.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/replay/engine_fixture.h"

namespace vrank::graph {
namespace {

using testing::ElementsAre;
using testing::Pair;

class EngineThreadsTest : public EngineFixture {
 protected:
  static constexpr CollectiveCall kSum{.count = 16};

  void MakePair() {
    MakeRanks(2);
    job.groups.push_back({"pair", {0, 1}});
    Create(0, 2, 1, 0);
    Create(1, 2, 1, 1);
  }
  void CloseAll() {
    for (auto& program : programs)
      program->Close();
  }
  // Everything that can be done, and nothing more.
  void RunUntilStuck() { ASSERT_TRUE(engine->Run().ok()); }
};

TEST_F(EngineThreadsTest, AWaitLetsWhatStandsBehindItPass) {
  MakePair();
  // Rank 0: a thread waits for the first sum, another one issues the second. Rank 1
  // wants the second one first.
  Collective(0, kSum, 1, 1);
  Wait(0, 1);
  const uint64_t wait = P(0).size() - 1;
  Collective(0, kSum, 2, 2);
  Host(0, 7);
  Collective(1, kSum, 2, 2);
  Wait(1, 2);
  Collective(1, kSum, 1, 1);
  Wait(1, 1);
  CloseAll();
  Start();
  RunUntilStuck();
  EXPECT_FALSE(engine->Finished());
  ASSERT_TRUE(engine->LetOtherThreadsPass());
  EXPECT_THAT(observer.passed, ElementsAre(Pair(0, wait)));
  EXPECT_EQ(observer.answers.count({0, wait}), 0u);
  RunUntilStuck();
  EXPECT_TRUE(engine->Finished());
  // The thread is told the end; the program's host has not been there.
  EXPECT_EQ(observer.answers.at({0, wait}).ns, EndOf("collective world 0 0 0"));
  EXPECT_EQ(HostEnd(0), 2 * Created() + 7);
  EXPECT_EQ(HostEnd(1), EndOf("collective world 0 1 1"));
  EXPECT_FALSE(engine->LetOtherThreadsPass());
}

// A device wait is one wait per stream: that the thread goes on to wait for the second
// stream shows no other thread.
TEST_F(EngineThreadsTest, TheOtherWaitsOfOneCallAreNoOtherThreads) {
  MakePair();
  Collective(0, kSum, 1, 1);
  Work(0, 500, 2);
  Wait(0, 1, kMoreWaits);
  Wait(0, 2);
  Start();
  RunUntilStuck();
  EXPECT_FALSE(engine->LetOtherThreadsPass());
  EXPECT_TRUE(observer.passed.empty());
  // Behind the call another thread's work does.
  Work(0, 500, 3);
  engine->ProgramChanged(programs[0].get());
  RunUntilStuck();
  EXPECT_TRUE(engine->LetOtherThreadsPass());
}

TEST_F(EngineThreadsTest, APollOfATokenAndAReleasePassToo) {
  MakePair();
  Collective(0, kSum, 1, 1);
  OnToken(OpKind::kRecordToken, 0, 1, 1);
  OnToken(OpKind::kPollToken, 0, 1, 1, 100);
  const uint64_t poll = P(0).size() - 1;
  Op release = Make(OpKind::kReleaseCommunicator);
  release.a = 1;
  P(0).Append(release);
  const uint64_t released = P(0).size() - 1;
  Collective(0, kSum, 2, 2);
  Collective(1, kSum, 2, 2);
  Wait(1, 2);
  Collective(1, kSum, 1, 1);
  CloseAll();
  Start();
  RunUntilStuck();
  ASSERT_TRUE(engine->LetOtherThreadsPass());
  RunUntilStuck();
  ASSERT_TRUE(engine->LetOtherThreadsPass());
  RunUntilStuck();
  EXPECT_TRUE(engine->Finished());
  EXPECT_THAT(observer.passed, ElementsAre(Pair(0, poll), Pair(0, released)));
  EXPECT_EQ(observer.answers.at({0, poll}).ns, EndOf("collective world 0 0 0"));
  EXPECT_EQ(observer.answers.at({0, released}).ns, EndOf("collective world 0 0 0"));
}

TEST_F(EngineThreadsTest, ACreationPasses) {
  MakeRanks(2, /*communicator=*/false);
  job.groups.push_back({"pair", {0, 1}});
  Create(0, 1, 0, 0);
  Create(0, 2, 1, 0);
  Host(0, 7);
  Create(1, 2, 1, 1);
  Create(1, 1, 0, 1);
  CloseAll();
  Start();
  RunUntilStuck();
  ASSERT_TRUE(engine->LetOtherThreadsPass());
  RunUntilStuck();
  EXPECT_TRUE(engine->Finished());
  EXPECT_THAT(observer.passed, ElementsAre(Pair(0, 0u)));
  // Rank 1 creates one after the other; rank 0's first thread learns of the second end.
  EXPECT_EQ(EndOf("answer 0 0"), 2 * Created());
  EXPECT_EQ(observer.told.at("answer 0 0").value, uint64_t{2} << 32);
  EXPECT_EQ(HostEnd(0), Created() + 7);
  EXPECT_EQ(HostEnd(1), 2 * Created());
}

TEST_F(EngineThreadsTest, NobodyPassesForWhatHelpersAndLoggersWrote) {
  MakePair();
  Collective(0, kSum, 1, 1);
  Wait(0, 1);
  Host(0, 100);
  Op helper = Make(OpKind::kQueryLane);
  helper.from_helper = 1;
  helper.b = kAnswerUnknown;
  P(0).Append(helper);
  Start();
  RunUntilStuck();
  EXPECT_FALSE(engine->LetOtherThreadsPass());
}

}  // namespace
}  // namespace vrank::graph
