// Who belongs to the groups of a split, and messages for what cannot be told.

#include "graph/membership/membership_inference.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <memory>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/membership/deciding_rank.h"
#include "graph/membership/real_rank_choice.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job in which some ranks are real; the others follow the real one of their class, or
// are absent where there is none.
class Job {
 public:
  using Rule =
      std::function<std::pair<int32_t, int32_t>(int32_t)>;  // rank -> colour, key

  Job(const std::string& layout, int32_t world, std::vector<int32_t> real,
      const std::vector<std::string>& hints = {})
      : layout_(layout.empty() ? Layout::Flat(world) : *Layout::Parse(layout, world)),
        real_(std::move(real)) {
    std::vector<GroupHint> parsed;
    for (const std::string& hint : hints) {
      parsed.push_back(*ParseGroupHint(hint, layout_));
    }
    inference_ = std::make_unique<MembershipInference>(layout_, real_, parsed);
    for (int32_t rank = 0; rank < world; ++rank) {
      world_.push_back(rank);
    }
  }

  // World ranks per group, in the child's order.
  absl::StatusOr<std::vector<std::vector<int32_t>>> Split(const Rule& rule,
                                                          uint32_t number = 0) {
    return Split(world_, rule, number);
  }
  absl::StatusOr<std::vector<std::vector<int32_t>>> Split(
      const std::vector<int32_t>& parent, const Rule& rule, uint32_t number = 0) {
    std::vector<Creation> calls(parent.size());
    std::vector<Membership::SplitMember> members;
    for (size_t i = 0; i < parent.size(); ++i) {
      const bool is_real =
          std::find(real_.begin(), real_.end(), parent[i]) != real_.end();
      const int32_t caller = is_real ? parent[i] : inference_->LeaderOf(parent[i]);
      if (caller >= 0) {
        std::tie(calls[i].color, calls[i].key) = rule(caller);
      }
      members.push_back(
          {parent[i], caller >= 0 ? &calls[i] : nullptr, caller >= 0 && !is_real});
    }
    const auto groups = inference_->Split("world", number, members);
    if (!groups.ok()) {
      return groups.status();
    }
    std::vector<std::vector<int32_t>> ranks;
    for (const auto& group : *groups) {
      ranks.emplace_back();
      for (uint32_t member : group.members) {
        ranks.back().push_back(parent[member]);
      }
    }
    return ranks;
  }
  uint64_t nobody_joined() const { return inference_->splits_nobody_joined(); }

 private:
  Layout layout_;
  std::vector<int32_t> real_;
  std::vector<int32_t> world_;
  std::unique_ptr<MembershipInference> inference_;
};

TEST(MembershipInferenceTest, SplitsByCallsWhereAllAreKnown) {
  Job job("dp=6", 6, {0, 1, 2, 3, 4, 5});
  const auto groups = job.Split([](int32_t rank) -> std::pair<int32_t, int32_t> {
    return {rank == 4 ? -1 : 100 - rank % 2, rank < 3 ? 1 : 0};
  });
  ASSERT_TRUE(groups.ok());
  EXPECT_THAT(*groups, ElementsAre(ElementsAre(0, 2), ElementsAre(3, 5, 1)));
}

TEST(MembershipInferenceTest, InfersMegatronGroups) {
  const Layout layout = *Layout::Parse("tp=8,dp=8,pp=16", 1024);
  Job job("tp=8,dp=8,pp=16", 1024, SuggestRealRanks(layout));
  const auto tp = job.Split([](int32_t rank) { return std::pair(rank / 8, rank % 8); });
  ASSERT_TRUE(tp.ok()) << tp.status().ToString();
  EXPECT_EQ(tp->size(), 128u);
  EXPECT_THAT(tp->front(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const auto dp = job.Split(
      [](int32_t rank) { return std::pair(rank % 8 + 8 * (rank / 64), rank / 8 % 8); });
  ASSERT_TRUE(dp.ok()) << dp.status().ToString();
  EXPECT_THAT(dp->front(), ElementsAre(0, 8, 16, 24, 32, 40, 48, 56));
  const auto pp = job.Split([](int32_t rank) { return std::pair(rank % 64, rank); });
  ASSERT_TRUE(pp.ok()) << pp.status().ToString();
  EXPECT_EQ(pp->front().size(), 16u);
  EXPECT_EQ(pp->front()[1], 64);
  // First and last stage share the embedding.
  const auto embedding = job.Split([](int32_t rank) -> std::pair<int32_t, int32_t> {
    const int32_t stage = rank / 64;
    return {stage == 0 || stage == 15 ? rank % 64 : -1, stage == 0 ? 0 : 1};
  });
  ASSERT_TRUE(embedding.ok()) << embedding.status().ToString();
  EXPECT_EQ(embedding->size(), 64u);
  EXPECT_THAT(embedding->at(5), ElementsAre(5, 965));
  // The same with one key for all, and in descending order.
  const auto equal = job.Split([](int32_t rank) { return std::pair(rank / 8, 0); });
  ASSERT_TRUE(equal.ok()) << equal.status().ToString();
  EXPECT_EQ(*equal, *tp);
  const auto down = job.Split([](int32_t rank) { return std::pair(rank / 8, -rank); });
  ASSERT_TRUE(down.ok()) << down.status().ToString();
  EXPECT_THAT(down->front(), ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(MembershipInferenceTest, NamesTheRankThatWouldDecide) {
  Job job("tp=2,dp=4,pp=2", 16, {0, 8});
  const auto by_tp = [](int32_t rank) { return std::pair(rank / 2, rank % 2); };
  const auto groups = job.Split(by_tp, 3);
  ASSERT_FALSE(groups.ok());
  const std::string message = groups.status().ToString();
  EXPECT_THAT(message, HasSubstr("split 3 of communicator world"));
  EXPECT_THAT(message, HasSubstr("--group world:3="));
  const size_t at = message.find("add rank ");
  ASSERT_NE(at, std::string::npos) << message;
  // Doing what the message says must help.
  const int32_t rank = std::atoi(message.c_str() + at + 9);
  Job better("tp=2,dp=4,pp=2", 16, {0, 8, rank});
  const auto decided = better.Split(by_tp, 3);
  ASSERT_TRUE(decided.ok()) << decided.status().ToString();
  EXPECT_THAT(decided->front(), ElementsAre(0, 1));
}

TEST(MembershipInferenceTest, TakesTheFlag) {
  Job job("tp=2,dp=4,pp=2", 16, {0, 8}, {"world:3=tp"});
  const auto groups =
      job.Split([](int32_t rank) { return std::pair(rank / 2, rank % 2); }, 3);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_THAT(groups->front(), ElementsAre(0, 1));
  // The flag does not overrule what was seen.
  Job wrong("tp=2,dp=4,pp=2", 16, {0, 1}, {"world:3=tp"});
  EXPECT_FALSE(wrong.Split([](int32_t rank) { return std::pair(rank, 0); }, 3).ok());
}

TEST(MembershipInferenceTest, NamesTheContradiction) {
  // Colours by halves of dp: no group of this layout.
  Job job("dp=8,pp=2", 16, {0, 1, 4, 8});
  const auto groups =
      job.Split([](int32_t rank) { return std::pair(rank % 8 / 4, rank); });
  ASSERT_FALSE(groups.ok());
  EXPECT_THAT(groups.status().ToString(),
              HasSubstr("they fit groups of another layout, as ranks 0-3,8-11 or"));
  // Colours by parity of the number of bits: no group of any layout.
  Job odd("dp=8,pp=2", 16, {0, 1, 2, 4, 7, 8});
  const auto none = odd.Split([](int32_t rank) {
    return std::pair(std::popcount(static_cast<uint32_t>(rank % 8)) % 2, rank);
  });
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().ToString(), HasSubstr("no groups of the layout"));
  EXPECT_THAT(none.status().ToString(), HasSubstr("ranks 0 and 1"));
}

// The layout is a claim: where too few calls are seen to refute it, it is not taken.
TEST(MembershipInferenceTest, AsksForARankThatCouldRefuteTheLayout) {
  // Pairs of ranks, stated as groups of four.
  const auto pairs = [](int32_t rank) { return std::pair(rank / 2, rank % 2); };
  EXPECT_EQ(DecidingRankOf(Job("tp=4,pp=2", 8, {0, 4}).Split(pairs).status()),
            std::nullopt);
  const auto groups = Job("tp=4,pp=2", 8, {0, 1, 4}).Split(pairs);
  EXPECT_THAT(groups.status().ToString(),
              HasSubstr("not those of groups of the layout tp=4,pp=2"));
  EXPECT_THAT(groups.status().ToString(), HasSubstr("as ranks 0,1 for rank 0"));
  // One colour per first rank: ranks 0, 1 and 4 say nothing of rank 2.
  const auto by_first = [](int32_t rank) { return std::pair(rank / 2 * 2, rank); };
  const auto open = Job("tp=4,pp=2", 8, {0, 1, 4}).Split(by_first);
  EXPECT_TRUE(DecidingRankOf(open.status()).has_value());
}

TEST(MembershipInferenceTest, OneHashOfTheMembersTellsThemAll) {
  // Python: abs(hash((0, 2, 4, 6))) % 2**31, as torch.distributed.new_group has it.
  const auto even = [](int32_t) { return std::pair(2031181855, 0); };
  const auto groups = Job("tp=2,dp=4", 8, {0}).Split(even);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_THAT(groups->front(), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(Job("tp=4,dp=2", 8, {0}).Split(even).status().ToString(),
              HasSubstr("as ranks 0,2,4,6 for rank 0"));
}

// Where no layout is stated, none contradicts the hash.
TEST(MembershipInferenceTest, AHashNeedsNoLayout) {
  // Python: abs(hash(tuple(range(8)))) % 2**31.
  const auto first = [](int32_t rank) { return std::pair(1266629538, rank % 8); };
  const auto groups = Job("", 64, {0}).Split(first);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  ASSERT_EQ(groups->size(), 8u);
  EXPECT_THAT((*groups)[0], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT((*groups)[7], ElementsAre(56, 57, 58, 59, 60, 61, 62, 63));
}

TEST(MembershipInferenceTest, LeavesOutClassesWhoseLeaderPassesNoColor) {
  // First and last stage share the embedding; stages 1 and 2 stay out.
  Job job("tp=2,dp=2,pp=4", 16, {1, 2, 4, 8, 14});
  const auto groups = job.Split([](int32_t rank) -> std::pair<int32_t, int32_t> {
    const int32_t stage = rank / 4;
    return {stage == 0 || stage == 3 ? rank % 4 : -1, stage == 0 ? 0 : 1};
  });
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_THAT(*groups, ElementsAre(ElementsAre(0, 12), ElementsAre(1, 13),
                                   ElementsAre(2, 14), ElementsAre(3, 15)));
}

// torch.distributed.new_subgroups splits the world once per group.
TEST(MembershipInferenceTest, CountsSplitsOfGroupsWithoutARealRank) {
  Job job("tp=2,dp=2", 4, {0}, {"world:0=tp"});
  for (const int32_t group : {0, 1}) {
    const auto groups = job.Split(
        [&](int32_t rank) { return std::pair(rank / 2 == group ? 5 : -1, 0); },
        static_cast<uint32_t>(group));
    ASSERT_TRUE(groups.ok()) << groups.status().ToString();
    EXPECT_EQ(job.nobody_joined(), static_cast<uint64_t>(group));
  }
  Job all_real("tp=2,dp=2", 4, {0, 1, 2, 3});
  ASSERT_TRUE(all_real.Split([](int32_t) { return std::pair(-1, 0); }).ok());
  EXPECT_EQ(all_real.nobody_joined(), 0u);
}

TEST(MembershipInferenceTest, RefusesClassesThatDisagreeOnTakingPart) {
  Job job("dp=4", 4, {1, 2});
  const auto groups = job.Split(
      [](int32_t rank) { return std::pair(rank == 1 ? 0 : protocol::kNoColor, 0); });
  EXPECT_THAT(groups.status().ToString(), HasSubstr("NCCL_SPLIT_NOCOLOR"));
}

TEST(MembershipInferenceTest, TakesAbsentStagesToStayOutOfASplitThatSomeStayOutOf) {
  const auto rule = [](int32_t rank) -> std::pair<int32_t, int32_t> {
    const int32_t stage = rank / 4;
    return {stage == 0 || stage == 3 ? rank % 4 : -1, rank};
  };
  // Stage 2 is absent. What is left open is the dimension, and rank 2 would decide it.
  Job job("tp=2,dp=2,pp=4", 16, {1, 6, 15});
  EXPECT_EQ(DecidingRankOf(job.Split(rule).status()), 2);
  for (const char* hint : {"world:0=pp", "world:0=pp@0,3"}) {
    Job hinted("tp=2,dp=2,pp=4", 16, {1, 6, 15}, {hint});
    const auto groups = hinted.Split(rule);
    ASSERT_TRUE(groups.ok()) << groups.status().ToString();
    EXPECT_THAT(groups->front(), ElementsAre(0, 12));
  }
}

TEST(MembershipInferenceTest, InfersSplitsOfCommunicatorsWithoutTheLeader) {
  // Parents are rows along tp. Row dp 1 of stage 0 holds the real rank 7; row dp
  // 3 holds followers only.
  Job job("tp=4,dp=4,pp=2", 32, {7, 25});
  const auto rule = [](int32_t rank) { return std::pair(0, rank % 4); };
  const auto own = job.Split({4, 5, 6, 7}, rule);
  ASSERT_TRUE(own.ok()) << own.status().ToString();
  EXPECT_THAT(*own, ElementsAre(ElementsAre(4, 5, 6, 7)));
  const auto sister = job.Split({12, 13, 14, 15}, rule);
  ASSERT_TRUE(sister.ok()) << sister.status().ToString();
  EXPECT_THAT(*sister, ElementsAre(ElementsAre(12, 13, 14, 15)));
}

TEST(MembershipInferenceTest, AcceptsHashedColorsWhereOnlyOneGroupingFits) {
  const auto hashed = [](int32_t rank) {
    return std::pair(static_cast<int32_t>((rank / 2 + 77) * 2654435761u >> 4),
                     rank % 2);
  };
  Job job("tp=2,dp=2", 4, {0, 1, 2});
  const auto groups = job.Split(hashed);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_THAT(*groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  Job few("tp=2,dp=2", 4, {0});
  EXPECT_THAT(few.Split(hashed).status().ToString(), HasSubstr("no known formula"));
}

}  // namespace
}  // namespace vrank::graph
