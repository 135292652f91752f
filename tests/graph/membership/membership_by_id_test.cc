// Communicators whose ranks all call in one run: the unique id tells the members.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/guest/shared_id.h"
#include "graph/membership/id_meetings.h"
#include "graph/membership/membership_inference.h"

namespace vrank::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Creation Call(uint32_t ranks, uint32_t index, const std::string& id) {
  Creation call;
  call.ranks = ranks;
  call.rank = index;
  std::copy(id.begin(), id.end(), call.unique_id.begin());
  return call;
}

// As NCCL_COMM_ID gives it to rank `maker`.
Creation SharedCall(uint32_t ranks, uint32_t index, int32_t maker, int number) {
  Creation call =
      Call(ranks, index, kSharedIdPrefix + ("host:1 #" + std::to_string(number)));
  SetMakerOfSharedId(call.unique_id.data(), maker);
  return call;
}

// A call and its caller: told to the membership, and asked about again.
struct Caller {
  Membership::InitCaller who;
  Creation call;
};

std::vector<int32_t> AllOf(int32_t world) {
  std::vector<int32_t> ranks(static_cast<size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

MembershipInference AllReal(const std::string& layout, int32_t world) {
  return MembershipInference(*Layout::Parse(layout, world), AllOf(world));
}

// All call in the order given, then all are asked again: who is in what.
std::map<std::pair<int32_t, uint32_t>, Membership::InitAnswer> Told(
    MembershipInference& membership, const std::vector<Caller>& callers) {
  std::map<std::pair<int32_t, uint32_t>, Membership::InitAnswer> told;
  for (int round = 0; round < 2; ++round) {
    for (const Caller& caller : callers) {
      const std::pair key(caller.who.rank, caller.who.number);
      if (told.count(key) != 0)
        continue;
      const auto answer = membership.Init(caller.who, caller.call);
      EXPECT_TRUE(answer.ok() || absl::IsUnavailable(answer.status()))
          << answer.status();
      if (answer.ok() && answer->members != nullptr)
        told[key] = *answer;
    }
  }
  return told;
}

std::string NamesOf(
    const std::map<std::pair<int32_t, uint32_t>, Membership::InitAnswer>& told) {
  std::string names;
  for (const auto& [key, answer] : told)
    names += std::to_string(key.first) + " " + answer.identity + "\n";
  return names;
}

TEST(MembershipByIdTest, IdsPairWhatRanksMakeInDifferentOrders) {
  MembershipInference membership = AllReal("dp=2", 2);
  const auto told = Told(membership, {{{0, 0}, Call(2, 0, "a")},
                                      {{1, 0}, Call(2, 1, "b")},
                                      {{0, 1}, Call(2, 0, "b")},
                                      {{1, 1}, Call(2, 1, "a")}});
  EXPECT_EQ(NamesOf(told), "0 world\n0 world#1\n1 world#1\n1 world\n");
}

TEST(MembershipByIdTest, MembersStandWhereTheySay) {
  MembershipInference membership = AllReal("dp=4", 4);
  const auto told = Told(membership, {{{0, 0}, Call(4, 3, "a")},
                                      {{1, 0}, Call(4, 2, "a")},
                                      {{2, 0}, Call(4, 1, "a")},
                                      {{3, 0}, Call(4, 0, "a")}});
  ASSERT_EQ(told.size(), 4u);
  EXPECT_THAT(*told.at({0, 0}).members, ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(told.at({0, 0}).index, 3u);
  EXPECT_EQ(told.at({0, 0}).identity, "ranks 3,2,1,0#init0");
}

TEST(MembershipByIdTest, GroupsNeedNotBeOfTheLayout) {
  MembershipInference membership = AllReal("dp=4", 4);
  const auto told = Told(membership, {{{0, 0}, Call(3, 0, "a")},
                                      {{1, 0}, Call(3, 1, "a")},
                                      {{2, 0}, Call(3, 2, "a")},
                                      {{3, 0}, Call(1, 0, "b")}});
  EXPECT_EQ(NamesOf(told),
            "0 ranks 0-2#init0\n1 ranks 0-2#init0\n2 ranks 0-2#init0\n3 none@3\n");
}

TEST(MembershipByIdTest, ASizeBeyondTheJobIsNamedBesideThoseOfOthers) {
  MembershipInference membership = AllReal("dp=4", 4);
  ASSERT_TRUE(membership.Init({0, 0}, Call(4, 0, "a")).ok());
  ASSERT_TRUE(membership.Init({2, 0}, Call(2, 1, "b")).ok());
  EXPECT_THAT(
      membership.Init({1, 0}, Call(5, 1, "a")).status().message(),
      ::testing::AllOf(HasSubstr("rank 1 initialises a communicator of 5 ranks"),
                       HasSubstr("; rank 0 passes the same unique id for 4 "
                                 "ranks (its init 0);")));
}

TEST(MembershipByIdTest, SomeRealRanksSufficeWhereTheLayoutHasNoGroup) {
  MembershipInference membership(*Layout::Parse("dp=4", 4), {0, 1, 2});
  const auto told = Told(membership, {{{0, 0}, Call(3, 0, "a")},
                                      {{1, 0}, Call(3, 1, "a")},
                                      {{2, 0}, Call(3, 2, "a")}});
  EXPECT_EQ(told.size(), 3u);
  EXPECT_FALSE(membership.Init({3, 0, true}, Call(3, 0, "a")).ok());
}

TEST(MembershipByIdTest, ALayoutThatIdsContradictIsRefused) {
  MembershipInference membership(
      *Layout::Parse("tp=2,dp=2,pp=2", 8), {0, 1, 2},
      {*ParseGroupHint("init:0=tp", *Layout::Parse("tp=2,dp=2,pp=2", 8))});
  ASSERT_TRUE(membership.Init({0, 0}, Call(2, 0, "a")).ok());
  EXPECT_FALSE(membership.Init({2, 0}, Call(2, 1, "a")).ok());
}

TEST(MembershipByIdTest, SharedIdsBelongToWhoMadeThemOrToAll) {
  MembershipInference membership = AllReal("dp=8", 8);
  const auto told = Told(membership, {// Handed out by ranks 0 and 2.
                                      {{0, 0}, SharedCall(2, 0, 0, 0)},
                                      {{2, 0}, SharedCall(2, 0, 2, 0)},
                                      {{3, 0}, SharedCall(2, 1, 2, 0)},
                                      {{1, 0}, SharedCall(2, 1, 0, 0)},
                                      // Each made its own.
                                      {{4, 0}, SharedCall(3, 0, 4, 1)},
                                      {{5, 0}, SharedCall(3, 1, 5, 1)},
                                      {{7, 0}, SharedCall(1, 0, 7, 1)},
                                      {{6, 0}, SharedCall(3, 2, 6, 1)}});
  ASSERT_EQ(told.size(), 8u);
  EXPECT_THAT(*told.at({0, 0}).members, ElementsAre(0, 1));
  EXPECT_THAT(*told.at({2, 0}).members, ElementsAre(2, 3));
  EXPECT_THAT(*told.at({5, 0}).members, ElementsAre(4, 5, 6));
  EXPECT_THAT(*told.at({7, 0}).members, ElementsAre(7));
}

TEST(MembershipByIdTest, ASharedIdServesTheSameRanksAgainAndNoOthers) {
  MembershipInference membership = AllReal("dp=4", 4);
  for (uint32_t round = 0; round < 2; ++round) {
    const auto told = Told(membership, {{{0, round}, SharedCall(2, 0, 0, 0)},
                                        {{1, round}, SharedCall(2, 1, 1, 0)}});
    EXPECT_EQ(told.size(), 2u);
  }
  EXPECT_THAT(
      membership.Init({2, 0}, SharedCall(2, 0, 2, 0)).status().ToString(),
      HasSubstr("its unique id has made the communicator of ranks 0,1 already"));
}

TEST(MembershipByIdTest, RefusesCallsThatDoNotFitTogether) {
  const auto refused = [](const Caller& first, const Caller& second) {
    MembershipInference membership = AllReal("dp=4", 4);
    EXPECT_TRUE(membership.Init(first.who, first.call).ok());
    return membership.Init(second.who, second.call).status().ToString();
  };
  EXPECT_THAT(refused({{0, 0}, Call(4, 2, "a")}, {{3, 1}, Call(4, 2, "a")}),
              HasSubstr("ranks 0 and 3 initialise with one unique id, and both pass "
                        "index 2 of 4 (init 0 of rank 0, init 1 of rank 3)"));
  EXPECT_THAT(refused({{0, 0}, Call(4, 0, "a")}, {{1, 0}, Call(3, 1, "a")}),
              HasSubstr("rank 0 passes 4 ranks (its init 0), rank 1 passes 3"));
  EXPECT_THAT(refused({{0, 0}, Call(1, 0, "a")}, {{1, 0}, Call(1, 0, "a")}),
              HasSubstr("has made the communicator of rank 0 already"));
}

TEST(MembershipByIdTest, SaysWhoHasCalledAndWhoHasNot) {
  MembershipInference membership = AllReal("dp=4", 4);
  ASSERT_TRUE(membership.Init({2, 0}, Call(4, 2, "a")).ok());
  ASSERT_TRUE(membership.Init({0, 0}, Call(4, 0, "a")).ok());
  ASSERT_TRUE(membership.Init({1, 0}, Call(4, 1, "b")).ok());
  std::vector<int32_t> awaited;
  EXPECT_EQ(membership.DescribeInit({0, 0}, Call(4, 0, "a"), &awaited),
            "2 of 4 have passed its unique id: rank 0 (index 0), rank 2 (index 2); "
            "ranks 1,3 of communicator 'world' have not; rank 1 waits with other ids "
            "for as many ranks: all members need the id of one ncclGetUniqueId, and "
            "none may wait for another communicator first");
  EXPECT_THAT(awaited, ElementsAre(1, 3));
}

TEST(MembershipByIdTest, SaysThatOthersMayNotBeReal) {
  MembershipInference membership = AllReal("dp=4", 4);
  membership.CompareIdsOf({0, 1});
  ASSERT_TRUE(membership.Init({0, 0}, Call(2, 0, "a")).ok());
  std::vector<int32_t> awaited;
  EXPECT_THAT(membership.DescribeInit({0, 0}, Call(2, 0, "a"), &awaited),
              HasSubstr("ranks that are not real may be its others, and the layout "
                        "dp=4,order=dp has no group of 2 in which rank 0 has that "
                        "index: correct --layout"));
}

TEST(MembershipByIdTest, SaysWhatKeepsSharedIdsApart) {
  MembershipInference membership = AllReal("dp=4", 4);
  ASSERT_TRUE(membership.Init({0, 0}, SharedCall(4, 0, 0, 0)).ok());
  ASSERT_TRUE(membership.Init({1, 0}, SharedCall(4, 0, 1, 0)).ok());
  ASSERT_TRUE(membership.Init({2, 0}, SharedCall(3, 2, 2, 0)).ok());
  std::vector<int32_t> awaited;
  const std::string told =
      membership.DescribeInit({0, 0}, SharedCall(4, 0, 0, 0), &awaited);
  EXPECT_THAT(told, HasSubstr("; index 0 is passed more than once"));
  EXPECT_THAT(told, HasSubstr("; rank 2 passes it for 3 ranks (its init 0)"));
}

// Each rank goes through its calls, as chance has it before or after others. It stops
// at a kUnavailable one until it is told; where all stop, the first one goes on, as the
// engine has it.
std::map<std::pair<int32_t, uint32_t>, Membership::InitAnswer> PlayInAnyOrder(
    MembershipInference& membership, const std::vector<std::vector<Caller>>& by_rank,
    std::mt19937& random) {
  std::map<std::pair<int32_t, uint32_t>, Membership::InitAnswer> told;
  std::vector<Caller> undecided;
  std::vector<size_t> next(by_rank.size());
  std::vector<bool> stopped(by_rank.size());
  const auto ask = [&](const Caller& caller, bool* stop) {
    const auto answer = membership.Init(caller.who, caller.call);
    *stop = absl::IsUnavailable(answer.status());
    EXPECT_TRUE(answer.ok() || *stop) << answer.status();
    if (!answer.ok() || answer->members == nullptr)
      return false;
    told[{caller.who.rank, caller.who.number}] = *answer;
    return true;
  };
  const auto move = [&](size_t rank) {
    const Caller& caller = by_rank[rank][next[rank]++];
    bool stop = false;
    if (!ask(caller, &stop))
      undecided.push_back(caller);
    stopped[rank] = stop;
    std::erase_if(undecided, [&](const Caller& other) {
      bool still = false;
      if (!ask(other, &still))
        return false;
      // The rank may have been let pass, and stopped at a later call.
      const auto at = static_cast<size_t>(other.who.rank);
      if (other.who.number + 1 == next[at])
        stopped[at] = false;
      return true;
    });
  };
  while (true) {
    std::vector<size_t> able, all;
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      if (next[rank] == by_rank[rank].size())
        continue;
      all.push_back(rank);
      if (!stopped[rank])
        able.push_back(rank);
    }
    if (all.empty())
      return told;
    move(able.empty() ? all.front() : able[random() % able.size()]);
  }
}

// Random communicators of random ranks at random places, which each rank makes in an
// order of its own. Each call's answer is the communicator's own list, and names are
// the same whatever the order in which calls arrive.
TEST(MembershipByIdTest, AnyOrderOfCallsGivesTheSameCommunicators) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return random() % n; };
    const auto [layout, world] =
        std::vector<std::pair<std::string, int32_t>>{{"dp=4", 4},
                                                     {"tp=2,dp=2", 4},
                                                     {"tp=2,dp=2,pp=2", 8},
                                                     {"tp=3,dp=2", 6}}[below(4)];
    std::vector<std::vector<int32_t>> groups(1 + below(12));
    std::vector<std::vector<Caller>> by_rank(static_cast<size_t>(world));
    for (size_t g = 0; g < groups.size(); ++g) {
      std::vector<int32_t> ranks = AllOf(world);
      if (below(2) == 0)
        std::shuffle(ranks.begin(), ranks.end(), random);
      ranks.resize(1 + below(ranks.size()));
      const int32_t maker = ranks[below(ranks.size())];
      const bool shared = below(2) == 0;
      for (uint32_t i = 0; i < ranks.size(); ++i) {
        const auto size = static_cast<uint32_t>(ranks.size());
        by_rank[static_cast<size_t>(ranks[i])].push_back(
            {{ranks[i], 0},
             shared ? SharedCall(size, i, maker, static_cast<int>(g))
                    : Call(size, i, "id " + std::to_string(g))});
      }
      groups[g] = std::move(ranks);
    }
    for (auto& calls : by_rank) {
      std::shuffle(calls.begin(), calls.end(), random);
      for (uint32_t n = 0; n < calls.size(); ++n)
        calls[n].who.number = n;
    }
    std::string names;
    for (int arrival = 0; arrival < 3; ++arrival) {
      MembershipInference membership = AllReal(layout, world);
      const auto told = PlayInAnyOrder(membership, by_rank, random);
      std::map<std::string, std::string> id_of;  // by name
      for (const auto& [key, answer] : told) {
        const Caller& caller = by_rank[static_cast<size_t>(key.first)][key.second];
        EXPECT_EQ(answer.index, caller.call.rank);
        ASSERT_EQ(answer.members->size(), caller.call.ranks);
        EXPECT_EQ((*answer.members)[answer.index], caller.who.rank);
        const std::string text(caller.call.unique_id.begin(),
                               caller.call.unique_id.end());
        EXPECT_EQ(id_of.try_emplace(answer.identity, text).first->second, text)
            << "seed " << seed << ": two communicators named " << answer.identity;
      }
      size_t calls = 0;
      for (const auto& own : by_rank)
        calls += own.size();
      ASSERT_EQ(told.size(), calls) << "seed " << seed;
      if (names.empty())
        names = NamesOf(told);
      EXPECT_EQ(NamesOf(told), names) << "seed " << seed << ", layout " << layout;
    }
  }
}

TEST(MembershipByIdTest, RemembersFewOfManyIds) {
  MembershipInference membership = AllReal("dp=2", 2);
  for (uint32_t n = 0; n < 3 * IdMeetings::kRemembered; ++n) {
    const std::string id = "id " + std::to_string(n);
    ASSERT_TRUE(membership.Init({0, n}, Call(2, 0, id)).ok());
    ASSERT_NE(membership.Init({1, n}, Call(2, 1, id))->members, nullptr);
    ASSERT_NE(membership.Init({0, n}, Call(2, 0, id))->members, nullptr);
  }
  // Long ago: forgotten, and as good as new.
  EXPECT_TRUE(membership.Init({0, 1u << 30}, Call(2, 0, "id 1")).ok());
  EXPECT_FALSE(
      membership
          .Init({0, (1u << 30) + 1},
                Call(2, 0, "id " + std::to_string(3 * IdMeetings::kRemembered - 1)))
          .ok());
}

}  // namespace
}  // namespace vrank::graph
