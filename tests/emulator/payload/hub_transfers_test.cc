// What the hub carries from one member to another, and makes up for virtual ones.

#include <cstdint>
#include <initializer_list>
#include <optional>
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
