// Communicators of two ranks whose ends the store names.

#include "graph/membership/pair_inits.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/membership/deciding_rank.h"
#include "graph/membership/membership_inference.h"
#include "graph/schema/pair_id.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PairInitsTest : public ::testing::Test {
 protected:
  // `ends`: as the store has them of the id `id`.
  static Creation Call(MembershipInference* job, uint8_t id, uint32_t index,
                       const Membership::PairEnds& ends) {
    Creation call;
    call.ranks = 2;
    call.rank = index;
    call.unique_id[0] = id;
    job->NotePair(call.unique_id, ends);
    return call;
  }
  static std::vector<int32_t> MembersOf(
      const absl::StatusOr<Membership::InitAnswer>& answer) {
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer->members : std::vector<int32_t>();
  }
};

// Stage 1 of 4, rank 3 of each group along the pipeline has the same place.
TEST_F(PairInitsTest, NeighboursAlongThePipeline) {
  MembershipInference job(*Layout::Parse("dp=2,pp=4,order=dp-pp", 8), {0, 2, 4, 6});
  const Creation first = Call(&job, 1, 0, {0, 1, false});
  const auto low = job.Init({0, 0, false}, first);
  EXPECT_THAT(MembersOf(low), ElementsAre(0, 2));
  EXPECT_EQ(low->index, 0u);
  // Rank 1 follows rank 0, rank 3 follows rank 2.
  const auto follower = job.Init({1, 0, true}, first);
  EXPECT_THAT(MembersOf(follower), ElementsAre(1, 3));
  const Creation other_end = Call(&job, 1, 1, {0, 1, false});
  const auto high = job.Init({2, 0, false}, other_end);
  EXPECT_THAT(MembersOf(high), ElementsAre(0, 2));
  EXPECT_EQ(high->index, 1u);
  EXPECT_EQ(high->identity, low->identity);
  EXPECT_EQ(job.Init({3, 0, true}, other_end)->identity, follower->identity);
  // Made anew, it is another one.
  const auto again = job.Init({0, 1, false}, Call(&job, 2, 0, {0, 1, false}));
  EXPECT_NE(again->identity, low->identity);
}

// A run of both ranks, and one of a rank alone.
TEST_F(PairInitsTest, AWorldOfTwoHasOneNameForIt) {
  for (const std::vector<int32_t>& real : {std::vector{0, 1}, std::vector{0}}) {
    MembershipInference job(*Layout::Parse("pp=2", 2), real);
    for (const int32_t rank : real)
      EXPECT_EQ(job.Init({rank, 0, false},
                         Call(&job, 1, static_cast<uint32_t>(rank), {0, 1, true}))
                    ->identity,
                "pair@0,1");
  }
}

TEST_F(PairInitsTest, RanksOfTheWorld) {
  MembershipInference job(*Layout::Parse("tp=2,pp=4", 8), {0, 2, 4, 6});
  EXPECT_THAT(MembersOf(job.Init({2, 0, false}, Call(&job, 1, 0, {2, 4, true}))),
              ElementsAre(2, 4));
  EXPECT_THAT(MembersOf(job.Init({3, 0, true}, Call(&job, 1, 0, {2, 4, true}))),
              ElementsAre(3, 5));
}

TEST_F(PairInitsTest, EndsOfOneClassAreSeen) {
  MembershipInference job(Layout::Flat(4), {0});
  const absl::Status open =
      job.Init({0, 0, false}, Call(&job, 1, 0, {0, 1, true})).status();
  EXPECT_THAT(open.ToString(), HasSubstr("state its stages"));
  EXPECT_THAT(DecidingRanksOf(open), ElementsAre(1, 2, 3));
  MembershipInference many(Layout::Flat(64), {0});
  const absl::Status refused =
      many.Init({0, 0, false}, Call(&many, 1, 0, {0, 1, true})).status();
  EXPECT_TRUE(DecidingRanksOf(refused).empty());
  EXPECT_THAT(refused.ToString(), HasSubstr("make ranks 1-63 real"));
}

TEST_F(PairInitsTest, GroupsThatNoOrSeveralDimensionsHave) {
  MembershipInference job(*Layout::Parse("tp=4,dp=4", 16), {0});
  EXPECT_THAT(
      job.Init({0, 0, false}, Call(&job, 1, 0, {0, 1, false})).status().ToString(),
      HasSubstr("several such groups, in which that is one of ranks 1,4"));
  MembershipInference none(*Layout::Parse("dp=2,pp=4,order=dp-pp", 8), {0});
  EXPECT_THAT(
      none.Init({0, 0, false}, Call(&none, 1, 1, {5, 6, false})).status().ToString(),
      HasSubstr("no such group"));
}

TEST_F(PairInitsTest, IdsOfSlicesSayTheEnds) {
  EXPECT_EQ(PairOfId(IdOfPair({12, 1044})), Pair(12, 1044));
  EXPECT_FALSE(PairOfId({}).has_value());
  PairId broken = IdOfPair({12, 4});
  broken[13] = 'x';  // in place of the colon
  EXPECT_FALSE(PairOfId(broken).has_value());
  MembershipInference job(*Layout::Parse("dp=2,pp=4,order=dp-pp", 8), {1, 2, 5, 6}, {},
                          CallSource::kTraced);
  Creation call;
  call.ranks = 2;
  call.unique_id = IdOfPair({1, 3});
  EXPECT_THAT(MembersOf(job.Init({1, 0, false}, call)), ElementsAre(1, 3));
  EXPECT_THAT(MembersOf(job.Init({0, 0, true}, call)), ElementsAre(0, 2));
}

// An id that is not in the store as a pair's is matched with the layout as before.
TEST_F(PairInitsTest, OtherIdsAreGroupsOfTheLayout) {
  MembershipInference job(*Layout::Parse("dp=2,pp=4,order=dp-pp", 8), {0, 2, 4, 6});
  Call(&job, 1, 0, {0, 1, false});
  Creation call;
  call.ranks = 2;
  call.unique_id[0] = 9;
  EXPECT_THAT(MembersOf(job.Init({0, 0, false}, call)), ElementsAre(0, 1));
}

}  // namespace
}  // namespace vrank::graph
