// What the hub carries from one member to another, and makes up for virtual ones.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "emulator/payload/hub.h"
#include "tests/emulator/payload/hub_oracle.h"

namespace vrank::emulator {
namespace {

std::vector<std::byte> SomeBytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(PayloadHubTest, CarriesTransfersInOrder) {
  HubFixture fixture(3, {0, 2});
  const protocol::Transfer send{1, 2, 1};
  auto early = fixture.hub().Fetch(12, TransferKey(0, 0), 0, 1);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(early->state, PayloadHub::FetchState::kNotReady);
  for (int i = 0; i < 2; ++i) {
    fixture.Deposit(0, TransferKey(2, static_cast<uint32_t>(i)), 0,
                    SomeBytes({40 + i}));
    ASSERT_TRUE(fixture.hub().Transfers(10, kCommunicator, std::vector{send}).ok());
  }
  EXPECT_EQ(fixture.Result(2, TransferKey(0, 1), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{41}}));
  EXPECT_EQ(fixture.Result(2, TransferKey(0, 0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::byte{40}}));
  // From a virtual sender nothing is known.
  EXPECT_EQ(fixture.Result(2, TransferKey(1, 0), 0, 1),
            (std::vector<std::optional<std::byte>>{std::nullopt}));
}

// Its own part comes behind its receives.
TEST(PayloadHubTest, AVirtualMemberSendsARootItsOwnPart) {
  HubFixture fixture(4, {1, 3});
  const std::vector<protocol::Transfer> receives{{2, 0, 0}, {2, 2, 0}, {2, 3, 0}};
  // Other exchanges with virtual members come before, and count.
  ASSERT_TRUE(fixture.hub()
                  .Transfers(11, kCommunicator,
                             std::vector<protocol::Transfer>{{2, 2, 1}, {2, 2, 0}})
                  .ok());
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(fixture.hub().Transfers(11, kCommunicator, receives).ok());
    fixture.Deposit(1, OwnPartKey(1), 0, SomeBytes({50 + static_cast<int>(i), 60}));
    fixture.Deposit(3, TransferKey(1, i), 0, SomeBytes({7, 8}));
    ASSERT_TRUE(
        fixture.hub()
            .Transfers(13, kCommunicator, std::vector<protocol::Transfer>{{2, 1, 1}})
            .ok());
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const auto own = static_cast<std::byte>(50 + i);
    for (const uint32_t peer : {0u, 2u})
      EXPECT_EQ(fixture.Result(1, TransferKey(peer, peer == 2 ? i + 1 : i), 0, 2),
                (std::vector<std::optional<std::byte>>{own, std::byte{60}}));
    EXPECT_EQ(fixture.Result(1, TransferKey(3, i), 0, 2),
              (std::vector<std::optional<std::byte>>{std::byte{7}, std::byte{8}}));
  }
  const auto mirrored = fixture.hub().Fetch(11, TransferKey(2, 2), 0, 2);
  ASSERT_TRUE(mirrored.ok());
  EXPECT_EQ(mirrored->mirrored_bytes, 2u);
}

// Two pipelines of three stages: of the first one all are real, of the second its
// first.
TEST(PayloadHubTest, AFollowerSendsWhatItsLeaderSends) {
  const std::vector<int32_t> first{0, 1, 2}, second{3, 4, 5};
  PayloadHub hub(HubOptions(), {0, 1, 2, 3});
  for (uint32_t i = 0; i < 3; ++i)
    hub.AddCommunicator(static_cast<int32_t>(i), 8, "first", first, i);
  hub.AddCommunicator(3, 9, "second", second, 0);
  const protocol::PayloadKey received{9, 0, 1, 1};
  const auto fetch = [&] { return *hub.Fetch(3, received, 0, 2); };
  EXPECT_EQ(fetch().state, PayloadHub::FetchState::kComputed);
  EXPECT_EQ(fetch().unknown_from, 4);
  hub.SetLeaderLookup([](int32_t rank, const std::string& communicator)
                          -> std::optional<std::pair<int32_t, uint32_t>> {
    if (communicator != "second")
      return std::nullopt;
    return std::pair(rank - 3, 8u);
  });
  // The leader will have sent it by then.
  EXPECT_EQ(fetch().state, PayloadHub::FetchState::kNotReady);
  const protocol::PayloadKey sent{8, 0, 0, 1};
  ASSERT_TRUE(hub.Deposit(1, Piece(sent, protocol::PayloadState::kKnown, 0, 2),
                          SomeBytes({7, 9}))
                  .ok());
  ASSERT_TRUE(hub.Transfers(1, 8, std::vector<protocol::Transfer>{{2, 0, 1}}).ok());
  EXPECT_EQ(fetch().state, PayloadHub::FetchState::kKnown);
  EXPECT_EQ(fetch().data, SomeBytes({7, 9}));
  EXPECT_EQ(fetch().mirrored_bytes, 2u);
  // What it computes is computed, and so is what a leader gone has never sent.
  ASSERT_TRUE(hub.Transfers(1, 8, std::vector<protocol::Transfer>{{2, 0, 1}}).ok());
  const protocol::PayloadKey next{9, 1, 1, 1}, last{9, 2, 1, 1};
  EXPECT_EQ(hub.Fetch(3, next, 0, 2)->state, PayloadHub::FetchState::kComputed);
  EXPECT_EQ(hub.Fetch(3, next, 0, 2)->unknown_from, -1);
  hub.LoseRank(1);
  EXPECT_EQ(hub.Fetch(3, last, 0, 2)->state, PayloadHub::FetchState::kComputed);
  EXPECT_EQ(fetch().data, SomeBytes({7, 9}));
}

// Of each pipeline one stage is real: what the first one sends to a virtual rank is
// what the other pipeline's real stage receives. Without such a stage it is not kept.
TEST(PayloadHubTest, KeepsWhatALeaderSendsToAVirtualRank) {
  for (const bool both : {true, false}) {
    PayloadHub hub(HubOptions(), both ? std::set<int32_t>{0, 3} : std::set<int32_t>{0});
    hub.AddCommunicator(0, 8, "first", std::vector<int32_t>{0, 1}, 0);
    hub.AddCommunicator(3, 9, "second", std::vector<int32_t>{2, 3}, 1);
    hub.SetLeaderLookup([&](int32_t rank, const std::string& communicator) {
      std::optional<std::pair<int32_t, uint32_t>> leader;
      if (both && rank == 1 && communicator == "first")
        leader = {3, 9u};
      if (rank == 2 && communicator == "second")
        leader = {0, 8u};
      return leader;
    });
    ASSERT_TRUE(hub.Deposit(0,
                            Piece({8, 0, 1, 1}, protocol::PayloadState::kKnown, 0, 1),
                            SomeBytes({7}))
                    .ok());
    ASSERT_TRUE(hub.Transfers(0, 8, std::vector<protocol::Transfer>{{1, 1, 1}}).ok());
    EXPECT_EQ(hub.retained_operations(), both ? 1u : 0u);
    if (both) {
      EXPECT_EQ(hub.Fetch(3, {9, 0, 0, 1}, 0, 1)->data, SomeBytes({7}));
    }
  }
}

// A leader's send to a virtual rank that no real stage receives, because the receiver's
// leader is not known yet, is not kept: the follower itself is the unknown sender.
TEST(PayloadHubTest, NamesTheFollowerWhoseLeadersSendIsNotKept) {
  PayloadHub hub(HubOptions(), {0, 3});
  hub.AddCommunicator(0, 8, "first", std::vector<int32_t>{0, 1}, 0);
  hub.AddCommunicator(3, 9, "second", std::vector<int32_t>{2, 3}, 1);
  hub.SetLeaderLookup([](int32_t rank, const std::string&) {
    return rank == 2 ? std::optional(std::pair(0, 8u)) : std::nullopt;
  });
  ASSERT_TRUE(hub.Transfers(0, 8, std::vector<protocol::Transfer>{{1, 1, 1}}).ok());
  const auto fetched = hub.Fetch(3, {9, 0, 0, 1}, 0, 1);
  ASSERT_TRUE(fetched.ok());
  EXPECT_EQ(fetched->state, PayloadHub::FetchState::kComputed);
  EXPECT_EQ(fetched->unknown_from, 2);
}

TEST(PayloadHubTest, NothingOfALeaderUnderTheExactPolicy) {
  PayloadRules rules;
  rules.Add(*ParsePayloadRule("second:*=exact"));
  HubOptions options;
  options.rules = &rules;
  PayloadHub hub(options, {0, 1, 2});
  for (uint32_t i = 0; i < 2; ++i)
    hub.AddCommunicator(static_cast<int32_t>(i), 8, "first", std::vector<int32_t>{0, 1},
                        i);
  hub.AddCommunicator(2, 9, "second", std::vector<int32_t>{2, 3}, 0);
  hub.SetLeaderLookup([](int32_t rank, const std::string&) {
    return std::optional(std::pair(rank - 2, 8u));
  });
  ASSERT_TRUE(hub.Deposit(1, Piece({8, 0, 0, 1}, protocol::PayloadState::kKnown, 0, 1),
                          SomeBytes({7}))
                  .ok());
  ASSERT_TRUE(hub.Transfers(1, 8, std::vector<protocol::Transfer>{{1, 0, 1}}).ok());
  EXPECT_EQ(hub.Fetch(2, {9, 0, 1, 1}, 0, 1)->state, PayloadHub::FetchState::kComputed);
}

// Of a gather: the root's own part, and a part of an all-gather.
TEST(PayloadHubTest, NotesCopiesOfSerializedObjects) {
  const std::vector<std::byte> pickle = SomeBytes({0x80, 4, 0x95, 9, 0, 0});
  HubFixture fixture(3, {0});
  const std::vector<protocol::Transfer> receives{{6, 1, 0}, {6, 2, 0}};
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(fixture.hub().Transfers(10, kCommunicator, receives).ok());
    fixture.Deposit(0, OwnPartKey(0), 0,
                    i == 0 ? pickle : SomeBytes({0x80, 4, 0x40, 9, 0, 0}));
    EXPECT_EQ(fixture.hub().Fetch(10, TransferKey(1, i), 0, 6)->copies_object, i == 0);
    // Not from its middle on.
    EXPECT_FALSE(fixture.hub().Fetch(10, TransferKey(2, i), 1, 5)->copies_object);
  }
  const protocol::PayloadKey key{kCommunicator, 0, protocol::kNone, 0};
  fixture.Deposit(0, key, 0, pickle);
  fixture.Call(0, {.operation = protocol::CollectiveKind::kAllGather,
                   .type = protocol::ElementType::kUint8,
                   .count = 6});
  EXPECT_FALSE(fixture.hub().Fetch(10, key, 0, 6)->copies_object);  // its own
  EXPECT_TRUE(fixture.hub().Fetch(10, key, 6, 6)->copies_object);
  EXPECT_TRUE(fixture.hub().Fetch(10, key, 12, 6)->copies_object);
}

TEST(PayloadHubTest, NobodysOwnPartStaysWhereAllAreReal) {
  HubFixture fixture(2, {0, 1});
  ASSERT_TRUE(
      fixture.hub()
          .Transfers(10, kCommunicator, std::vector<protocol::Transfer>{{1, 1, 0}})
          .ok());
  fixture.Deposit(0, OwnPartKey(0), 0, SomeBytes({1}));
  EXPECT_EQ(fixture.hub().retained_bytes(), 0u);
}

}  // namespace
}  // namespace vrank::emulator
