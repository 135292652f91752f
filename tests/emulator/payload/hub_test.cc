// The hub against its brute-force twin, and the rules of the data plane one by one.

#include "emulator/payload/hub.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "emulator/payload/element.h"
#include "tests/emulator/payload/hub_oracle.h"

namespace vrank::emulator {
namespace {

TEST(PayloadHubTest, AgreesWithTheOracleOnRandomCalls) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomCalls random(seed);
    const uint32_t members = 2u << random.Below(2);
    HubFixture fixture(members, random.Real(members));
    for (uint32_t sequence = 0; sequence < 8; ++sequence) {
      const Case c = random.Next(members, fixture.real());
      for (uint32_t member : fixture.real()) {
        DepositElements(fixture, random, c, member, sequence);
        fixture.Call(member, c.call);
      }
      for (uint32_t member : fixture.real())
        ExpectResult(fixture, random, c, member, sequence);
    }
  }
}

CollectiveCall AllReduceOf(uint64_t count) {
  return CollectiveCall{CollectiveKind::kAllReduce, ElementType::kUint8,
                        Reduction::kSum, 0, count};
}

std::vector<std::byte> SomeBytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(PayloadHubTest, WaitsForEveryRealMember) {
  HubFixture fixture(2, {0, 1});
  fixture.Deposit(0, KeyOf(0), 0, SomeBytes({1, 2}));
  fixture.Call(0, AllReduceOf(2));
  auto early = fixture.hub().Fetch(10, KeyOf(0), 0, 2);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(early->state, PayloadHub::FetchState::kNotReady);
  fixture.Deposit(1, KeyOf(0), 0, SomeBytes({3, 4}));
  fixture.Call(1, AllReduceOf(2));
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 2),
            (std::vector<std::optional<std::byte>>{std::byte{4}, std::byte{6}}));
}

TEST(PayloadHubTest, ABroadcastWaitsForItsRootOnly) {
  HubFixture fixture(3, {0, 1, 2});
  const CollectiveCall call{CollectiveKind::kBroadcast, ElementType::kUint8,
                            Reduction::kSum, 1, 1};
  fixture.Deposit(1, KeyOf(0), 0, SomeBytes({7}));
  fixture.Call(1, call);
  fixture.Call(0, call);
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{7}}));
}

TEST(PayloadHubTest, AVirtualRootHoldsWhatItsPeersHold) {
  const CollectiveCall broadcast{CollectiveKind::kBroadcast, ElementType::kUint8,
                                 Reduction::kSum, 0, 1};
  const CollectiveCall scatter{CollectiveKind::kScatter, ElementType::kUint8,
                               Reduction::kSum, 0, 1};
  HubFixture fixture(3, {2});
  fixture.Deposit(2, KeyOf(0), 0, SomeBytes({7}));
  fixture.Call(2, broadcast);
  fixture.Deposit(2, KeyOf(1), 0, SomeBytes({8}));
  fixture.Call(2, scatter);
  EXPECT_EQ(fixture.Result(2, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{7}}));
  EXPECT_EQ(fixture.Result(2, KeyOf(1), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{8}}));
}

TEST(PayloadHubTest, ARealRootsBufferIsTheOnlyOneThatCounts) {
  const CollectiveCall broadcast{CollectiveKind::kBroadcast, ElementType::kUint8,
                                 Reduction::kSum, 0, 1};
  HubFixture fixture(2, {0, 1});
  fixture.Deposit(1, KeyOf(0), 0, SomeBytes({7}));
  fixture.Call(1, broadcast);
  fixture.Deposit(0, KeyOf(0), 0, SomeBytes({9}));
  fixture.Call(0, broadcast);
  EXPECT_EQ(fixture.Result(1, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{9}}));
}

TEST(PayloadHubTest, ResolvesDerivedPiecesOnceTheirSourceIsComplete) {
  HubFixture fixture(2, {0, 1});
  // Member 0 runs ahead: its second call sends on a part of the first one's result.
  fixture.Deposit(0, KeyOf(0), 0, SomeBytes({1, 2, 3}));
  fixture.Call(0, AllReduceOf(3));
  Payload derived = Piece(KeyOf(1), PayloadState::kDerived, 0, 2);
  derived.source = KeyOf(0);
  derived.source_offset = 1;
  ASSERT_TRUE(fixture.hub().Deposit(10, derived, {}).ok());
  fixture.Call(0, AllReduceOf(2));
  fixture.Deposit(1, KeyOf(0), 0, SomeBytes({10, 20, 30}));
  fixture.Call(1, AllReduceOf(3));
  fixture.Deposit(1, KeyOf(1), 0, SomeBytes({100, 100}));
  fixture.Call(1, AllReduceOf(2));
  EXPECT_EQ(fixture.Result(1, KeyOf(1), 0, 2),
            (std::vector<std::optional<std::byte>>{std::byte{122}, std::byte{133}}));
}

TEST(PayloadHubTest, WhatALostRankDidNotJoinIsComputed) {
  HubFixture fixture(3, {0, 1, 2});
  for (const uint32_t member : {0u, 1u}) {
    fixture.Deposit(member, KeyOf(0), 0, SomeBytes({1}));
    fixture.Call(member, AllReduceOf(1));
  }
  // A call that it does not join, and one in which that one's result is sent on.
  fixture.Deposit(0, KeyOf(1), 0, SomeBytes({2}));
  fixture.Call(0, AllReduceOf(1));
  Payload derived = Piece(KeyOf(2), PayloadState::kDerived, 0, 1);
  derived.source = KeyOf(1);
  ASSERT_TRUE(fixture.hub().Deposit(10, derived, {}).ok());
  fixture.Call(0, AllReduceOf(1));
  fixture.hub().LoseRank(11);
  // It had joined the first one, which may still come.
  auto early = fixture.hub().Fetch(10, KeyOf(0), 0, 1);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(early->state, PayloadHub::FetchState::kNotReady);
  fixture.Deposit(2, KeyOf(0), 0, SomeBytes({5}));
  fixture.Call(2, AllReduceOf(1));
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{7}}));
  for (const uint32_t sequence : {1u, 2u}) {
    auto never = fixture.hub().Fetch(10, KeyOf(sequence), 0, 1);
    ASSERT_TRUE(never.ok());
    EXPECT_EQ(never->state, PayloadHub::FetchState::kComputed);
  }
}

TEST(PayloadHubTest, BesideALostRankNobodyWaitsForWhoGaveUp) {
  HubFixture fixture(3, {0, 1, 2});
  for (const uint32_t member : {0u, 1u}) {
    fixture.Deposit(member, KeyOf(0), 0, SomeBytes({1}));
    fixture.Call(member, AllReduceOf(1));
  }
  fixture.hub().LoseRank(11);
  fixture.hub().ReleaseCommunicator(12, kCommunicator);
  auto never = fixture.hub().Fetch(10, KeyOf(0), 0, 1);
  ASSERT_TRUE(never.ok());
  EXPECT_EQ(never->state, PayloadHub::FetchState::kComputed);
}

// A pre-multiplied sum over what members have not read.
TEST(PayloadHubTest, MultipliesDerivedPiecesOnceTheyAreKnown) {
  using protocol::FactorState;
  for (const bool ahead : {false, true}) {
    HubFixture fixture(2, {0, 1});
    const auto first = [&](uint32_t member) {
      fixture.Deposit(member, KeyOf(0), 0, SomeBytes({1, 2, 3}));
      fixture.Call(member, AllReduceOf(3));
    };
    // Bytes of the first result by 3, by its first element, and known ones by that.
    const auto second = [&](uint32_t member) {
      Payload by_value = Piece(KeyOf(1), PayloadState::kDerived, 0, 1);
      by_value.source = KeyOf(0);
      by_value.source_offset = 1;
      by_value.factor.type = protocol::ElementType::kUint8;
      by_value.factor.state = FactorState::kKnown;
      by_value.factor.value[0] = 3;
      Payload by_result = by_value;
      by_result.offset = 1;
      by_result.source_offset = 2;
      by_result.factor.state = FactorState::kDerived;
      by_result.factor.source = KeyOf(0);
      Payload known = by_result;
      known.state = PayloadState::kKnown;
      known.offset = 2;
      const int32_t rank = HubFixture::World(member);
      EXPECT_TRUE(fixture.hub().Deposit(rank, by_value, {}).ok());
      EXPECT_TRUE(fixture.hub().Deposit(rank, by_result, {}).ok());
      EXPECT_TRUE(fixture.hub().Deposit(rank, known, SomeBytes({10})).ok());
      fixture.Call(member, AllReduceOf(3));
    };
    first(0);
    if (ahead)
      second(0);
    first(1);
    if (!ahead)
      second(0);
    second(1);
    EXPECT_EQ(fixture.Result(1, KeyOf(1), 0, 3),
              (std::vector<std::optional<std::byte>>{
                  std::byte{2 * 4 * 3}, std::byte{2 * 6 * 2}, std::byte{2 * 10 * 2}}));
  }
}

TEST(PayloadHubTest, ComputedFactorsAndPartsOfElementsMakeElementsComputed) {
  HubFixture fixture(2, {0, 1});
  const CollectiveCall floats{CollectiveKind::kAllReduce, ElementType::kFloat32,
                              Reduction::kPreMulSum, 0, 2};
  for (uint32_t member : {0u, 1u}) {
    // Of 12 bytes 6 are known.
    fixture.Deposit(member, KeyOf(0), 0, SomeBytes({0, 0, 0, 0, 0, 0}));
    fixture.Call(member, AllReduceOf(12));
    Payload factor_computed = Piece(KeyOf(1), PayloadState::kDerived, 0, 4);
    factor_computed.source = KeyOf(0);
    factor_computed.factor.state = protocol::FactorState::kDerived;
    factor_computed.factor.type = protocol::ElementType::kFloat32;
    factor_computed.factor.source = KeyOf(0);
    factor_computed.factor.source_offset = 4;
    Payload half_known = factor_computed;
    half_known.offset = half_known.source_offset = 4;
    half_known.factor.state = protocol::FactorState::kKnown;
    const int32_t rank = HubFixture::World(member);
    ASSERT_TRUE(fixture.hub().Deposit(rank, factor_computed, {}).ok());
    ASSERT_TRUE(fixture.hub().Deposit(rank, half_known, {}).ok());
    Payload crooked = half_known;
    crooked.offset = 8;
    crooked.bytes = 3;
    EXPECT_FALSE(fixture.hub().Deposit(rank, crooked, {}).ok());
    fixture.Call(member, floats);
  }
  EXPECT_EQ(fixture.Result(0, KeyOf(1), 0, 8),
            std::vector<std::optional<std::byte>>(8));
}

// What training does with gradients: the result of one call goes into the next.
void DepositResultOf(HubFixture& fixture, uint32_t member, uint32_t sequence) {
  Payload derived = Piece(KeyOf(sequence), PayloadState::kDerived, 0, 2);
  derived.source = KeyOf(sequence - 1);
  ASSERT_TRUE(fixture.hub().Deposit(HubFixture::World(member), derived, {}).ok());
}

TEST(PayloadHubTest, ResolvesAChainThatOneMemberIsFarAheadIn) {
  constexpr uint32_t kCalls = 6;
  HubFixture fixture(2, {0, 1});
  for (uint32_t member : {0u, 1u}) {
    fixture.Deposit(member, KeyOf(0), 0, SomeBytes({1, 2}));
    fixture.Call(member, AllReduceOf(2));
    for (uint32_t sequence = 1; sequence < kCalls; ++sequence) {
      DepositResultOf(fixture, member, sequence);
      fixture.Call(member, AllReduceOf(2));
    }
  }
  EXPECT_EQ(fixture.Result(0, KeyOf(kCalls - 1), 0, 2),
            (std::vector<std::optional<std::byte>>{std::byte{64}, std::byte{128}}));
}

TEST(PayloadHubTest, ForgetsAChainOfComputedResults) {
  constexpr uint32_t kCalls = 1000;
  HubFixture fixture(2, {0, 1});
  for (uint32_t member : {0u, 1u}) {
    fixture.Call(member, AllReduceOf(2));
    for (uint32_t sequence = 1; sequence < kCalls; ++sequence) {
      DepositResultOf(fixture, member, sequence);
      fixture.Call(member, AllReduceOf(2));
    }
  }
  EXPECT_EQ(fixture.hub().retained_operations(), 0u);
  EXPECT_EQ(fixture.Result(0, KeyOf(kCalls - 1), 0, 1),
            (std::vector<std::optional<std::byte>>{std::nullopt}));
}

TEST(PayloadHubTest, AGivenUpCommunicatorKeepsItsResultsAndNothingElse) {
  HubFixture fixture(2, {0, 1});
  for (uint32_t member : {0u, 1u}) {
    fixture.Deposit(member, KeyOf(0), 0, SomeBytes({5}));
    fixture.Call(member, AllReduceOf(1));
    fixture.hub().ReleaseCommunicator(HubFixture::World(member), kCommunicator);
  }
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{10}}));
  EXPECT_EQ(fixture.hub().communicators(), 1u);

  HubOptions options;
  options.retained_bytes = 100;
  HubFixture small(2, {0, 1}, options);
  for (uint32_t member : {0u, 1u}) {
    small.Deposit(member, KeyOf(0), 0, SomeBytes({5}));
    small.Call(member, AllReduceOf(1));
    small.hub().ReleaseCommunicator(HubFixture::World(member), kCommunicator);
  }
  EXPECT_EQ(small.hub().communicators(), 0u);
}

TEST(PayloadHubTest, CountsWhatItMadeUpForVirtualRanks) {
  HubFixture fixture(4, {2});
  fixture.Deposit(2, KeyOf(0), 0, SomeBytes({3}));
  fixture.Call(2, AllReduceOf(1));
  auto fetched = fixture.hub().Fetch(12, KeyOf(0), 0, 1);
  ASSERT_TRUE(fetched.ok());
  EXPECT_EQ(fetched->data[0], std::byte{12});
  EXPECT_EQ(fetched->mirrored_bytes, 1u);
}

TEST(PayloadHubTest, ForgetsComputedCallsAtOnce) {
  HubFixture fixture(2, {0, 1});
  for (uint32_t sequence = 0; sequence < 1000; ++sequence) {
    for (uint32_t member : {0u, 1u}) {
      ASSERT_TRUE(fixture.hub()
                      .Deposit(HubFixture::World(member),
                               Piece(KeyOf(sequence), PayloadState::kComputed, 0, 64),
                               {})
                      .ok());
      fixture.Call(member, AllReduceOf(64));
    }
  }
  EXPECT_EQ(fixture.hub().retained_bytes(), 0u);
  EXPECT_EQ(fixture.hub().retained_operations(), 0u);
  EXPECT_EQ(fixture.Result(0, KeyOf(5), 0, 1),
            (std::vector<std::optional<std::byte>>{std::nullopt}));
}

TEST(PayloadHubTest, GivesUpTheOldestResultsAboveItsBudget) {
  HubOptions options;
  options.retained_bytes = 4 * (kOperationBytes + 100);
  HubFixture fixture(1, {0}, options);
  const std::vector<std::byte> bytes(100, std::byte{1});
  for (uint32_t sequence = 0; sequence < 50; ++sequence) {
    fixture.Deposit(0, KeyOf(sequence), 0, bytes);
    fixture.Call(0, AllReduceOf(100));
    EXPECT_LE(fixture.hub().retained_bytes(), 4 * (kOperationBytes + 100));
  }
  EXPECT_EQ(fixture.Result(0, KeyOf(49), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{1}}));
  EXPECT_EQ(fixture.Result(0, KeyOf(0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::nullopt}));
  EXPECT_GE(fixture.hub().dropped_bytes(), 46u * 100);
}

TEST(PayloadHubTest, RefusesWhatNoGuestWouldSend) {
  HubFixture fixture(2, {0, 1});
  const auto known = Piece(KeyOf(0), PayloadState::kKnown, 0, 8);
  EXPECT_FALSE(fixture.hub().Deposit(10, known, SomeBytes({1})).ok());
  auto elsewhere = known;
  elsewhere.key.communicator = 9;
  EXPECT_FALSE(fixture.hub().Deposit(10, elsewhere, {}).ok());
  fixture.Deposit(0, KeyOf(0), 4, SomeBytes({1, 2, 3, 4}));
  EXPECT_FALSE(fixture.hub().Deposit(10, known, std::vector<std::byte>(8)).ok());
  EXPECT_FALSE(fixture.hub().Collective(10, kCommunicator, AllReduceOf(4)).ok());
  EXPECT_FALSE(
      fixture.hub().Collective(10, kCommunicator, AllReduceOf(~uint64_t{0})).ok());
  EXPECT_FALSE(fixture.hub().Fetch(10, KeyOf(77), 0, 1).ok());
}

}  // namespace
}  // namespace vrank::emulator
