// Another way for payloads than the hub in the same process: the interface must hold
// where contributions travel, and answers come late.

#include "emulator/payload/transport.h"

#include <chrono>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulator/payload/hub_oracle.h"
#include "tests/emulator/payload/socket_transport.h"

namespace vrank::emulator {
namespace {

using FetchState = PayloadTransport::FetchState;

// Fetches until the transport knows.
absl::StatusOr<PayloadTransport::Fetched> AwaitFetch(PayloadTransport& transport,
                                                     int32_t rank,
                                                     const PayloadKey& key,
                                                     uint64_t bytes) {
  while (true) {
    auto fetched = transport.Fetch(rank, key, 0, bytes);
    if (!fetched.ok() || fetched->state != FetchState::kUnderWay)
      return fetched;
    std::this_thread::yield();
  }
}

CollectiveCall SumOf(uint64_t count) {
  return CollectiveCall{CollectiveKind::kAllReduce, ElementType::kUint8,
                        Reduction::kSum, 0, count};
}

// Eight members over a socket: every operation, type and reduction as the oracle has
// them.
TEST(PayloadTransportTest, AgreesWithTheOracleOverASocket) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomCalls random(seed);
    const uint32_t members = 2u << random.Below(3);
    const std::set<uint32_t> real = random.Real(members);
    std::set<int32_t> ranks;
    for (uint32_t member : real)
      ranks.insert(HubFixture::World(member));
    PayloadServer server({}, ranks);
    HubFixture fixture(members, real, {},
                       std::make_unique<SocketTransport>(server.port()));
    for (uint32_t sequence = 0; sequence < 8; ++sequence) {
      const Case c = random.Next(members, real);
      for (uint32_t member : real) {
        DepositElements(fixture, random, c, member, sequence);
        fixture.Call(member, c.call);
      }
      for (uint32_t member : real)
        ExpectResult(fixture, random, c, member, sequence);
    }
  }
}

TEST(PayloadTransportTest, NotReadyHoldsUntilSomebodyContributes) {
  PayloadServer server({}, {10, 11});
  auto owned = std::make_unique<SocketTransport>(server.port());
  SocketTransport& transport = *owned;
  HubFixture fixture(2, {0, 1}, {}, std::move(owned));
  fixture.Deposit(0, KeyOf(0), 0, {std::byte{1}});
  fixture.Call(0, SumOf(1));
  auto early = transport.Fetch(10, KeyOf(0), 0, 1);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(early->state, FetchState::kUnderWay);
  early = AwaitFetch(transport, 10, KeyOf(0), 1);
  EXPECT_EQ(early->state, FetchState::kNotReady);
  const uint64_t sent = transport.fetches_sent();
  EXPECT_EQ(transport.Fetch(10, KeyOf(0), 0, 1)->state, FetchState::kNotReady);
  EXPECT_EQ(transport.fetches_sent(), sent);
  fixture.Deposit(1, KeyOf(0), 0, {std::byte{2}});
  fixture.Call(1, SumOf(1));
  const auto found = AwaitFetch(transport, 10, KeyOf(0), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->state, FetchState::kKnown);
  EXPECT_EQ(found->data[0], std::byte{3});
}

TEST(PayloadTransportTest, AnErrorMayComeWithALaterCall) {
  PayloadServer server({}, {10, 11});
  SocketTransport transport(server.port());
  const std::vector<int32_t> members{10, 11};
  transport.AddCommunicator(10, kCommunicator, "world", members, 0);
  // Nine bytes for a sum of eight.
  const auto piece = Piece(KeyOf(0), PayloadState::kKnown, 0, 9);
  absl::Status status = transport.Deposit(10, piece, std::vector<std::byte>(9));
  for (int calls = 0; status.ok() && calls < 10'000; ++calls) {
    status = transport.Collective(10, kCommunicator, SumOf(8));
    std::this_thread::yield();
  }
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("8 bytes, 9 came"));
}

TEST(PayloadTransportTest, EndsWithItsOwner) {
  PayloadServer server({}, {10});
  {
    SocketTransport transport(server.port());
    transport.AddCommunicator(10, kCommunicator, "world", std::vector<int32_t>{10}, 0);
    ASSERT_TRUE(transport.Collective(10, kCommunicator, SumOf(8)).ok());
  }
  while (!server.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server.hub().retained_bytes(), 0u);
}

}  // namespace
}  // namespace vrank::emulator
