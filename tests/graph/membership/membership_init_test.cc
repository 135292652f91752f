// Inits from unique ids: which group of the layout a communicator is.

#include <malloc.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/membership/deciding_rank.h"
#include "graph/membership/membership_inference.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts a rank's inits, as the engine does; a call is asked about until it is told.
class Inits {
 public:
  Inits(const Layout& layout, const std::vector<int32_t>& own_calls,
        const std::vector<GroupHint>& hints = {}, CallSource source = CallSource::kReal)
      : inference_(layout, own_calls, hints, source) {}
  MembershipInference* operator->() { return &inference_; }

  absl::StatusOr<Membership::InitAnswer> Init(int32_t rank, const Creation& call,
                                              bool is_follower) {
    auto answer = inference_.Init({rank, numbers_[rank], is_follower}, call);
    if (answer.ok() && answer->members != nullptr)
      ++numbers_[rank];
    return answer;
  }

 private:
  MembershipInference inference_;
  std::map<int32_t, uint32_t> numbers_;
};

Inits Make(const std::string& layout, int32_t world_size,
           const std::vector<int32_t>& own_calls,
           const std::vector<std::string>& hints = {}) {
  const Layout parsed = *Layout::Parse(layout, world_size);
  std::vector<GroupHint> groups;
  for (const std::string& hint : hints)
    groups.push_back(*ParseGroupHint(hint, parsed));
  return Inits(parsed, own_calls, groups);
}

Creation InitCall(uint32_t ranks, uint32_t rank, uint8_t id = 1) {
  Creation call;
  call.ranks = ranks;
  call.rank = rank;
  call.unique_id[0] = id;
  return call;
}

TEST(MembershipInitTest, PutsFollowersIntoTheWorld) {
  Inits job = Make("tp=2,dp=2,pp=2", 8, {1, 6});
  const auto real = job.Init(1, InitCall(8, 1), false);
  const auto follower = job.Init(2, InitCall(8, 1), true);
  ASSERT_TRUE(real.ok() && follower.ok());
  EXPECT_EQ(real->identity, follower->identity);
  EXPECT_EQ(real->index, 1u);
  EXPECT_EQ(follower->index, 2u);
  EXPECT_EQ(follower->members, real->members) << "a list each is quadratic";
  EXPECT_EQ(follower->members->size(), 8u);
}

// Programs that make and destroy communicators in a loop do so a million times. In the
// second layout it takes rank 3's calls to tell which group rank 0's are.
TEST(MembershipInitTest, KeepsNothingForEachCommunicator) {
  for (const auto& [layout, size] :
       {std::pair("dp=8", 8u), std::pair("tp=2,cp=2,dp=2", 4u)}) {
    Inits job = Make(layout, 8, {0, 3});
    const auto make = [&](uint32_t first, uint32_t last) {
      for (uint32_t i = first; i < last; ++i) {
        for (const int32_t rank : {3, 0}) {
          Creation call = InitCall(size, static_cast<uint32_t>(rank));
          std::memcpy(call.unique_id.data(), &i, sizeof i);
          const auto answer = job.Init(rank, call, false);
          ASSERT_TRUE(answer.ok()) << answer.status();
          ASSERT_EQ(answer->members->size(), size);
        }
      }
    };
    make(0, 10'000);
    const size_t before = mallinfo2().uordblks;
    make(10'000, 50'000);
    EXPECT_LT(mallinfo2().uordblks, before + (1 << 20)) << layout;
  }
}

TEST(MembershipInitTest, NamesMembersOfAProcessThatAreNoNeighbours) {
  Inits job = Make("dp=2", 2, {0, 1});
  Creation call = InitCall(4, 1);
  call.local_members = 2;
  const auto refused = job.Init(1, call, false);
  EXPECT_TRUE(absl::IsUnimplemented(refused.status()));
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("rank 1 joins a communicator of 4 ranks with index 1"),
                    HasSubstr("neighbours there, those of this one 2 to 3")));
}

TEST(MembershipInitTest, NamesASizeThatTheProcessesCannotMakeUp) {
  Inits job = Make("dp=4", 4, {0, 1, 2, 3});
  EXPECT_THAT(
      job.Init(1, InitCall(5, 1), false).status().message(),
      AllOf(HasSubstr("rank 1 initialises a communicator of 5 ranks, as index 1"),
            HasSubstr("the job has 4 processes"),
            HasSubstr("the same size to ncclCommInitRank")));
}

TEST(MembershipInitTest, TellsRepeatedWorldsApart) {
  Inits job = Make("dp=4", 4, {1});
  const auto first = job.Init(1, InitCall(4, 1, 7), false);
  const auto second = job.Init(1, InitCall(4, 1, 8), false);
  const auto follower = job.Init(0, InitCall(4, 1, 7), true);
  EXPECT_NE(first->identity, second->identity);
  EXPECT_EQ(first->identity, follower->identity);
}

TEST(MembershipInitTest, RefusesAPermutedWorld) {
  Inits job = Make("dp=4", 4, {1});
  const auto answer = job.Init(1, InitCall(4, 2), false);
  EXPECT_THAT(answer.status().ToString(), HasSubstr("index must be the rank"));
}

TEST(MembershipInitTest, RefusesDifferentIdsForOneCommunicator) {
  Inits job = Make("dp=4", 4, {1, 2});
  ASSERT_TRUE(job.Init(1, InitCall(4, 1, 7), false).ok());
  const auto answer = job.Init(2, InitCall(4, 2, 9), false);
  EXPECT_THAT(answer.status().ToString(), HasSubstr("different unique ids"));
}

TEST(MembershipInitTest, IdsOfAnotherRunAreNotCompared) {
  Inits inference = Make("dp=4", 4, {0, 1, 2});
  inference->CompareIdsOf({1, 2});  // rank 0 plays what was recorded
  ASSERT_TRUE(inference.Init(0, InitCall(4, 0, 7), false).ok());
  ASSERT_TRUE(inference.Init(1, InitCall(4, 1, 8), false).ok());
  EXPECT_THAT(inference.Init(2, InitCall(4, 2, 9), false).status().ToString(),
              HasSubstr("ranks 1 and 2 initialise communicator 'world'"));
}

TEST(MembershipInitTest, FindsSmallerCommunicatorsBySizeAndPlace) {
  Inits job = Make("tp=2,dp=4", 8, {3}, {"init:0=dp"});
  // Rank 3: tp 1, dp 1. Groups of 4 are along dp, where it has index 1.
  const auto real = job.Init(3, InitCall(4, 1), false);
  ASSERT_TRUE(real.ok()) << real.status().ToString();
  EXPECT_THAT(*real->members, ElementsAre(1, 3, 5, 7));
  const auto follower = job.Init(6, InitCall(4, 1), true);
  EXPECT_THAT(*follower->members, ElementsAre(0, 2, 4, 6));
  EXPECT_EQ(follower->index, 3u);
  EXPECT_NE(follower->identity, real->identity);
}

TEST(MembershipInitTest, RefusesInitsThatMayBeSeveralGroups) {
  Inits job = Make("tp=2,dp=2", 4, {3});
  const auto answer = job.Init(3, InitCall(2, 1), false);
  EXPECT_THAT(answer.status().ToString(), HasSubstr("--group init:0=tp"));
  Inits hinted = Make("tp=2,dp=2", 4, {3}, {"init:0=dp"});
  EXPECT_THAT(*hinted.Init(3, InitCall(2, 1), false)->members, ElementsAre(1, 3));
  EXPECT_FALSE(job.Init(3, InitCall(3, 1), false).ok());
}

// Rank 0 is first in its groups by tp and by dp. Rank 2, of the same class, is not.
TEST(MembershipInitTest, PlacesOfTheSameClassTell) {
  Inits job = Make("tp=2,dp=2", 4, {0, 2});
  const Creation call = InitCall(2, 0, 7);
  EXPECT_TRUE(absl::IsUnavailable(job.Init(0, call, false).status()));
  EXPECT_TRUE(absl::IsUnavailable(job.Init(0, call, false).status()));
  // All members are real, so the id has the last word.
  EXPECT_EQ(job.Init(2, InitCall(2, 1, 7), false)->members, nullptr);
  EXPECT_THAT(*job.Init(0, call, false)->members, ElementsAre(0, 2));
  EXPECT_THAT(*job.Init(2, InitCall(2, 1, 7), false)->members, ElementsAre(0, 2));
}

// Stages need not join their communicators in one order; both pass the id of theirs.
TEST(MembershipInitTest, RanksThatPassTheSameIdTell) {
  Inits job = Make("dp=2,pp=2", 4, {0, 1, 2, 3});
  EXPECT_TRUE(absl::IsUnavailable(job.Init(0, InitCall(2, 0, 7), false).status()));
  ASSERT_TRUE(job.Init(2, InitCall(2, 1, 7), false).ok());
  EXPECT_THAT(*job.Init(0, InitCall(2, 0, 7), false)->members, ElementsAre(0, 2));
}

TEST(MembershipInitTest, NamesTheRanksThatWouldTell) {
  Inits job = Make("tp=4,dp=4,pp=2", 32, {0, 16});
  const absl::Status open = job.Init(0, InitCall(4, 0), false).status();
  EXPECT_THAT(open.ToString(), HasSubstr("--group init:0=tp@0"));
  // One of each stage that is not first in both.
  EXPECT_THAT(DecidingRanksOf(open), ElementsAre(1, 17));
  // Not first along pp either, which later calls may leave open.
  Inits cube = Make("tp=4,dp=4,pp=4", 64, {0, 16, 32, 48});
  EXPECT_THAT(DecidingRanksOf(cube.Init(0, InitCall(4, 0), false).status()),
              ElementsAre(6, 22, 38, 54));
  Inits more = Make("tp=4,dp=4,pp=2", 32, {0, 1, 16, 17}, {"init:0=dp@1"});
  EXPECT_TRUE(absl::IsUnavailable(more.Init(0, InitCall(4, 0), false).status()));
  EXPECT_THAT(*more.Init(16, InitCall(4, 0, 2), false)->members,
              ElementsAre(16, 20, 24, 28));
}

TEST(MembershipInitTest, TracedRanksTellByTheirPlaces) {
  const auto traced = [](const std::vector<int32_t>& ranks) {
    return Inits(*Layout::Parse("tp=2,dp=2", 4), ranks, {}, CallSource::kTraced);
  };
  Inits alone = traced({0});
  EXPECT_THAT(DecidingRanksOf(alone.Init(0, InitCall(2, 0), false).status()),
              ElementsAre(1));
  Inits both = traced({0, 1});
  EXPECT_TRUE(absl::IsUnavailable(both.Init(0, InitCall(2, 0), false).status()));
  EXPECT_TRUE(both.Init(1, InitCall(2, 1, 5), false).ok());
  EXPECT_THAT(*both.Init(0, InitCall(2, 0), false)->members, ElementsAre(0, 1));
}

TEST(MembershipInitTest, RefusesIdsThatNoGroupOfTheLayoutShares) {
  Inits job = Make("tp=2,dp=2,pp=2", 8, {0, 1, 2, 3});
  EXPECT_TRUE(absl::IsUnavailable(job.Init(0, InitCall(2, 0), false).status()));
  EXPECT_FALSE(job.Init(3, InitCall(2, 1), false).ok());
  EXPECT_THAT(job.Init(0, InitCall(2, 0), false).status().ToString(),
              HasSubstr("ranks 0,3 pass its unique id"));
}

Creation LocalInit(uint32_t ranks, uint32_t rank, uint32_t local, uint8_t id = 1) {
  Creation call = InitCall(ranks, rank, id);
  call.local_members = local;
  return call;
}

TEST(MembershipInitTest, ProcessesHaveNeighboursAsTheirMembers) {
  Inits inference(*Layout::Parse("tp=2,dp=2", 4), {0, 3});
  for (uint32_t local = 0; local < 2; ++local) {
    const auto own = inference.Init(3, LocalInit(8, 6 + local, 2), false);
    ASSERT_TRUE(own.ok()) << own.status().ToString();
    EXPECT_THAT(*own->members, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
    EXPECT_EQ(own->index, 6 + local);
    EXPECT_EQ(own->identity, "worldx2");
    // Rank 1 follows rank 3.
    const auto followed = inference.Init(1, LocalInit(8, 6 + local, 2), true);
    ASSERT_TRUE(followed.ok()) << followed.status().ToString();
    EXPECT_EQ(followed->index, 2 + local);
    EXPECT_EQ(followed->identity, own->identity);
  }
  // Two of each process of a row along tp.
  Inits rows(*Layout::Parse("tp=2,dp=3", 6), {0, 3});
  const auto row = rows.Init(3, LocalInit(4, 2, 2, 2), false);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_THAT(*row->members, ElementsAre(2, 2, 3, 3));
}

// Of tp=4,dp=2, as each of these ranks calls; the last answer.
absl::Status FoursOf(const std::vector<int32_t>& calling, Inits* inits) {
  absl::Status status;
  for (const int32_t rank : calling) {
    MembershipInference& inference = *inits->operator->();
    EXPECT_TRUE(
        inference.Init({rank, 0, false}, InitCall(8, static_cast<uint32_t>(rank), 9))
            .ok());
    status = inference
                 .Init({rank, 1, false}, InitCall(4, static_cast<uint32_t>(rank % 4),
                                                  static_cast<uint8_t>(rank / 4)))
                 .status();
  }
  return status;
}

// Ranks 0,2,4,6 and others would be a group of four that rank 0 is first of, too.
TEST(MembershipInitTest, AsksForARankWhereAnotherLayoutExplainsAnInit) {
  Inits alone(*Layout::Parse("tp=4,dp=2", 8), {0});
  const absl::Status open = FoursOf({0}, &alone);
  EXPECT_TRUE(absl::IsFailedPrecondition(open)) << open;
  EXPECT_THAT(std::string(open.message()),
              AllOf(HasSubstr("init 1 of rank 0 (size 4, index 0)"),
                    HasSubstr("by tp of the layout tp=4,dp=2,order=tp-dp, ranks 0-3, "
                              "and a group of another layout, as ranks "),
                    HasSubstr("--group init:1=tp")));
  // In no other group of four that begins with rank 0 it comes third.
  ASSERT_THAT(DecidingRanksOf(open), ElementsAre(2));
  Inits both(*Layout::Parse("tp=4,dp=2", 8), {0, 3});
  EXPECT_TRUE(FoursOf({0, 3}, &both).ok());
  EXPECT_TRUE(both->CheckLayoutIsTold().ok());
}

// Which of them calls first must not matter.
TEST(MembershipInitTest, WaitsForTheCallsOfOtherRealRanks) {
  Inits both(*Layout::Parse("tp=4,dp=2", 8), {0, 3});
  EXPECT_TRUE(FoursOf({0}, &both).ok());
  // Rank 3 never called.
  EXPECT_THAT(both->CheckLayoutIsTold().ToString(), HasSubstr("another layout"));
}

TEST(MembershipInitTest, AHintTellsWhatTheLayoutClaims) {
  Inits hinted = Make("tp=4,dp=2", 8, {0}, {"init:1=tp"});
  EXPECT_TRUE(FoursOf({0}, &hinted).ok());
  EXPECT_TRUE(hinted->CheckLayoutIsTold().ok());
}

// The mesh of a job that puts tensor parallelism outermost, under the usual layout.
TEST(MembershipInitTest, RefusesAWrongLayoutOnceADecidingRankCalls) {
  Inits mesh(*Layout::Parse("tp=4,dp=2", 8), {0, 3});
  ASSERT_TRUE(mesh.Init(0, InitCall(4, 0), false).ok());
  EXPECT_THAT(mesh.Init(3, InitCall(4, 1, 2), false).status().ToString(),
              HasSubstr("no group of that size in which rank 3 (tp 3, dp 0) has that"));
}

TEST(MembershipInitTest, ThreadsThatJoinOneByOneAreOfOneProcess) {
  Inits inference(Layout::Flat(2), {0, 1});
  for (uint32_t member = 0; member < 6; ++member) {
    const auto answer =
        inference.Init(static_cast<int32_t>(member / 3), InitCall(6, member), false);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_THAT(*answer->members, ElementsAre(0, 0, 0, 1, 1, 1));
    EXPECT_EQ(answer->index, member);
  }
  EXPECT_FALSE(inference.Init(0, InitCall(6, 3, 2), false).ok());
}

TEST(MembershipInitTest, ACommunicatorWithinAProcessIsItsOwn) {
  Inits inference(Layout::Flat(4), {0, 1});
  for (int32_t rank = 0; rank < 4; ++rank) {
    for (uint32_t member = 0; member < 2; ++member) {
      const auto answer = inference.Init(
          rank, LocalInit(2, member, 2, static_cast<uint8_t>(1 + rank)), rank > 1);
      ASSERT_TRUE(answer.ok()) << answer.status().ToString();
      EXPECT_THAT(*answer->members, ElementsAre(rank, rank));
      EXPECT_EQ(answer->index, member);
    }
  }
  // Once more: another communicator.
  const auto again = inference.Init(0, LocalInit(2, 0, 2, 5), false);
  EXPECT_EQ(again->identity, "process@0x2#1");
  EXPECT_FALSE(inference.Init(0, LocalInit(3, 0, 2, 9), false).ok());
}

}  // namespace
}  // namespace vrank::graph
